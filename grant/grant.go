// Package grant says what a capability allows and what it may still spend: the
// claims of a grant, how they narrow when a part is handed on, the signed token
// that carries them, and the ledger of what was spent.
//
// It is pure: keys, ids and the time are given to it. It must never import an
// engine, read a clock or a file.
package grant

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Node is a summary of a session: it stands for itself and everything below.
type Node struct {
	Session string `json:"session"`
	N       uint64 `json:"n"`
}

func (n Node) String() string { return fmt.Sprintf("%s/n%d", n.Session, n.N) }

// Claims are what a grant allows. All of it at once: a call must be of one of
// the tools, about what lies in the sessions or nodes, before the time, and
// within the tokens.
type Claims struct {
	ID string `json:"jti"`
	// Chain are the grants this one descends from, the root first.
	Chain  []string `json:"chain,omitempty"`
	Tenant string   `json:"tenant"`
	// Sessions are open as a whole; of other ones only Nodes.
	Sessions []string `json:"sessions,omitempty"`
	Nodes    []Node   `json:"nodes,omitempty"`
	// Tools by their names: expand, describe, grep, query, …
	Tools []string `json:"tools"`
	// Tokens that answers may hold in all, those of descendants included.
	Tokens  int       `json:"tokens"`
	Expires time.Time `json:"expires"` // whole seconds
	// Depth is how many generations may still descend from this one.
	Depth int `json:"depth"`
	// DelegatedScope and KeptWork say, below the root, what was handed on and
	// what the one who handed it on goes on doing itself.
	DelegatedScope string `json:"delegated_scope,omitempty"`
	KeptWork       string `json:"kept_work,omitempty"`
}

// Root names the first grant of the family, whose ledger holds its spending.
func (c Claims) Root() string {
	if len(c.Chain) > 0 {
		return c.Chain[0]
	}
	return c.ID
}

// Parent names the grant this one was narrowed from, "" = none.
func (c Claims) Parent() string {
	if len(c.Chain) == 0 {
		return ""
	}
	return c.Chain[len(c.Chain)-1]
}

// Allows reports whether the tool is named.
func (c Claims) Allows(tool string) bool { return slices.Contains(c.Tools, tool) }

// Whole reports whether the session is open as a whole.
func (c Claims) Whole(session string) bool { return slices.Contains(c.Sessions, session) }

// Touches reports whether any part of the session is open.
func (c Claims) Touches(session string) bool {
	return c.Whole(session) || len(c.NodesOf(session)) > 0
}

// NodesOf are the numbers of the session's nodes that are open.
func (c Claims) NodesOf(session string) []uint64 {
	var out []uint64
	for _, n := range c.Nodes {
		if n.Session == session {
			out = append(out, n.N)
		}
	}
	return out
}

// Bounds of every grant, whoever asks.
const (
	MaxDepth  = 4
	MaxTokens = 1_000_000
	MaxTTL    = 24 * time.Hour
	// MaxScope bounds sessions and nodes, so that a token fits a header.
	MaxScope = 64
)

// Ask is what somebody wants to hand on. Fields left empty take what the
// parent allows, where there is one.
type Ask struct {
	Sessions []string
	Nodes    []Node
	Tools    []string
	Tokens   int
	TTL      time.Duration
	Depth    int

	DelegatedScope, KeptWork string
}

// Errors of narrowing.
var (
	ErrInvalid = errors.New("a grant like that cannot be")
	// ErrWider: the ask is not within the parent.
	ErrWider = errors.New("a grant can only be narrowed")
	// ErrUnguarded: a grant below the root says neither what is handed on nor
	// what is kept.
	ErrUnguarded = errors.New("delegation from a grant needs delegated_scope and kept_work")
)

// New makes the claims of a root grant.
func New(id, tenant string, a Ask, now time.Time) (Claims, error) {
	c := Claims{
		ID: id, Tenant: tenant, Sessions: sorted(a.Sessions), Nodes: sortedNodes(a.Nodes), Tools: sorted(a.Tools),
		Tokens: a.Tokens, Depth: a.Depth, Expires: now.Add(a.TTL).Truncate(time.Second).UTC(),
		DelegatedScope: a.DelegatedScope, KeptWork: a.KeptWork,
	}
	if a.TTL < time.Second || a.TTL > MaxTTL {
		return Claims{}, fmt.Errorf("%w: it would hold for %v, 1s to %v are possible", ErrInvalid, a.TTL, MaxTTL)
	}
	return c, c.validate()
}

func (c Claims) validate() error {
	switch {
	case c.ID == "" || c.Tenant == "":
		return fmt.Errorf("%w: it has no id or no tenant", ErrInvalid)
	case len(c.Sessions)+len(c.Nodes) == 0:
		return fmt.Errorf("%w: it names neither sessions nor nodes", ErrInvalid)
	case len(c.Sessions)+len(c.Nodes) > MaxScope:
		return fmt.Errorf("%w: it names %d sessions and nodes, at most %d are possible", ErrInvalid, len(c.Sessions)+len(c.Nodes), MaxScope)
	case slices.Contains(c.Sessions, "") || slices.ContainsFunc(c.Nodes, func(n Node) bool { return n.Session == "" || n.N == 0 }):
		return fmt.Errorf("%w: one of its sessions or nodes has no name", ErrInvalid)
	case len(c.Tools) == 0:
		return fmt.Errorf("%w: it names no tools", ErrInvalid)
	case c.Tokens < 1 || c.Tokens > MaxTokens:
		return fmt.Errorf("%w: its budget is %d tokens, 1 to %d are possible", ErrInvalid, c.Tokens, MaxTokens)
	case c.Depth < 0 || c.Depth > MaxDepth:
		return fmt.Errorf("%w: its depth is %d, 0 to %d are possible", ErrInvalid, c.Depth, MaxDepth)
	}
	return nil
}

// Narrow makes the claims of a child: within its parent in every dimension.
// below says whether a node lies below another one; nil = only a node itself
// lies within it.
func Narrow(parent Claims, id string, a Ask, now time.Time, below func(child, of Node) bool) (Claims, error) {
	if parent.Depth < 1 {
		return Claims{}, fmt.Errorf("%w: grant %s allows no descendants", ErrWider, parent.ID)
	}
	if err := guarded(a); err != nil {
		return Claims{}, err
	}
	a = inherit(a, parent, now)
	c, err := New(id, parent.Tenant, a, now)
	if err != nil {
		return Claims{}, err
	}
	c.Chain = append(slices.Clone(parent.Chain), parent.ID)
	if err := Within(c, parent, below); err != nil {
		return Claims{}, err
	}
	return c, nil
}

// guarded asks a delegation what it hands on and what it keeps: who keeps
// nothing would only pass the work along.
func guarded(a Ask) error {
	scope, kept := strings.TrimSpace(a.DelegatedScope), strings.TrimSpace(a.KeptWork)
	if scope == "" || kept == "" || strings.EqualFold(scope, kept) {
		return ErrUnguarded
	}
	return nil
}

func inherit(a Ask, parent Claims, now time.Time) Ask {
	if len(a.Sessions) == 0 && len(a.Nodes) == 0 {
		a.Sessions, a.Nodes = parent.Sessions, parent.Nodes
	}
	if len(a.Tools) == 0 {
		a.Tools = parent.Tools
	}
	if a.Tokens == 0 {
		a.Tokens = parent.Tokens
	}
	if a.TTL == 0 {
		a.TTL = parent.Expires.Sub(now)
	}
	return a
}

// Within says in what, if anything, child is wider than its parent.
func Within(child, parent Claims, below func(child, of Node) bool) error {
	wider := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrWider, fmt.Sprintf(format, args...))
	}
	for _, s := range child.Sessions {
		if !parent.Whole(s) {
			return wider("session %q is not in grant %s as a whole", s, parent.ID)
		}
	}
	for _, n := range child.Nodes {
		in := func(of Node) bool { return n == of || below != nil && below(n, of) }
		if !parent.Whole(n.Session) && !slices.ContainsFunc(parent.Nodes, in) {
			return wider("node %s is not in grant %s", n, parent.ID)
		}
	}
	for _, t := range child.Tools {
		if !parent.Allows(t) {
			return wider("tool %q is not in grant %s", t, parent.ID)
		}
	}
	switch {
	case child.Tenant != parent.Tenant:
		return wider("grant %s is of another tenant", parent.ID)
	case child.Tokens > parent.Tokens:
		return wider("%d tokens are more than the %d of grant %s", child.Tokens, parent.Tokens, parent.ID)
	case child.Expires.After(parent.Expires):
		return wider("it would outlive grant %s, which ends at %s", parent.ID, parent.Expires.Format(time.RFC3339))
	case child.Depth >= parent.Depth:
		return wider("depth %d is not below the %d of grant %s", child.Depth, parent.Depth, parent.ID)
	case !slices.Equal(child.Chain, append(slices.Clone(parent.Chain), parent.ID)):
		return wider("it does not descend from grant %s", parent.ID)
	}
	return nil
}

func sorted(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

func sortedNodes(list []Node) []Node {
	if len(list) == 0 {
		return nil
	}
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b Node) int {
		return cmp.Or(strings.Compare(a.Session, b.Session), cmp.Compare(a.N, b.N))
	})
	return slices.Compact(out)
}
