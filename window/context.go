package window

import (
	"fmt"

	"lcm/events"
	"lcm/session"
	"lcm/transcript"
)

// Options of one rendering.
type Options struct {
	// Window and Overhead in tokens; 0 = the session's. Where they make
	// another budget than the session's the context is hypothetical.
	Window, Overhead int
	// Emergency renders the degraded view where the context is over budget.
	// A hypothetical context is degraded in the same way, asked or not.
	Emergency bool
}

// Context is what the model sees, in neutral form.
type Context struct {
	Messages []transcript.Message
	Parts    []Part // what the messages are made of, in order
	// Stable is how many parts no later entry changes before the next cut: all
	// of them, except behind an assistant message that waits for a result.
	Stable int

	Tokens       int // sum over Parts
	Budget       int // B
	Regime       events.Regime
	Degraded     bool // an emergency view: not what a cut says
	Hypothetical bool // rendered for another budget than the session's

	PrefixHash  string // of the parts up to the cut's through-entry
	Cut         uint64 // the active cut, 0 = none
	EndsWith    events.Role
	Pointers    []Pointer
	BlockTokens int // frame and what stands in it
	TailTokens  int // the turns behind the block
}

// Part is one content part: where it stands and what it counts. The parts of
// two contexts between the same cuts are equal, byte for byte. Where a turn is
// shown in several places its tokens count in the first.
type Part struct {
	Message int    // index into Messages
	Block   int    // index of its first block
	Blocks  int    // how many blocks it is
	Entry   uint64 // the turn it shows, 0 = none
	Node    uint64 // the node it shows, 0 = none
	Tokens  int
}

// Pointer is a node the context shows.
type Pointer struct {
	ID          string // "#12"
	N           uint64
	Tier        events.TierName
	Tokens      int
	Depth       int
	First, Last uint64
}

// Render makes the active context of a session. It fails where a body cannot
// be read or the budget is below events.MinBudget. Without Emergency a context
// may be over its budget: the caller waits for a cut, or asks again.
func Render(v *session.View, bodies session.Bodies, o Options) (*Context, error) {
	s := v.Settings
	if o.Window > 0 {
		s.Window = o.Window
	}
	if o.Overhead > 0 {
		s.Overhead = o.Overhead
	}
	if b := s.Budget(); b < events.MinBudget {
		return nil, fmt.Errorf("window %d with overhead %d leaves a budget of %d tokens: at least %d are needed",
			s.Window, s.Overhead, b, events.MinBudget)
	}
	c := &Context{Budget: s.Budget(), Hypothetical: s.Budget() != v.Settings.Budget()}
	sh := asCut(v, s)
	n := sh.tokens()
	c.Regime = RegimeOf(n, s)
	if n > c.Budget && (o.Emergency || c.Hypothetical) {
		sh = emergency(v, s)
		c.Degraded = true
	}
	if v.Cut != nil {
		c.Cut = v.Cut.N
	}
	b := &builder{c: c, sh: sh, bodies: bodies}
	if err := b.build(); err != nil {
		return nil, fmt.Errorf("context of %s: %w", v.Ref, err)
	}
	return c, nil
}
