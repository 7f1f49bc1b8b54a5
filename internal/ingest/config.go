package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/oklog/ulid/v2"

	"lcm/condense"
	"lcm/events"
	"lcm/explore"
	"lcm/internal/api"
	"lcm/window"
)

// deadLimit is the largest original that a dead letter keeps, bytes: what fits
// one message. Of more only hash, size and place are kept.
const deadLimit = events.InlineBytes

// Log is the log as the append path needs it. Safe for concurrent use.
type Log interface {
	// Epoch names the log; Partitions is its partition count.
	Epoch() string
	Partitions() int
	// LastOf is the position of a subject's last event, 0 = none. It may lag
	// on a replicated log; an error means the log is unavailable.
	LastOf(ctx context.Context, subject string) (uint64, error)
	// Commit stores events durably, in order per subject, and answers with the
	// position of each, 0 = not stored. Its error joins *api.ConflictError,
	// api.ErrUnknownOutcome and api.ErrLogUnavailable; it retries nothing.
	Commit(ctx context.Context, batch []api.Append) ([]uint64, error)
	// Bury keeps what was refused, once, whenever it comes again.
	Bury(ctx context.Context, d api.DeadLetter) error
}

// Lookup is the projection as the append path needs it: it waits for
// request.Token and answers at one watermark, never below the token. Safe for
// concurrent use; any error means the projection cannot be asked.
type Lookup func(ctx context.Context, r api.LookupRequest) (*api.LookupReply, error)

// Config of the append path. The zero value of a field is its default.
type Config struct {
	// Defaults are the settings of a session whose first append brings none.
	// The zero Settings mean events.DefaultSettings().
	Defaults events.Settings
	// Models are settings, by field name, that a session gets when it is
	// configured with a model of that name.
	Models map[string]map[string]any
	// BatchEvents ends the collection of a commit, events. Default 1,000, the
	// server's limit of an atomic batch; what queued beyond it waits.
	BatchEvents int
	// BatchBytes likewise, payload bytes. Default 8 MiB: a commit of large
	// turns does not hold small ones up for long.
	BatchBytes int
	// MaxWrites of one request. Default 5,000: a request is answered whole.
	MaxWrites int
	// MaxLanes is how many sessions' ends are kept in memory. Default 4,096,
	// about 1 KB each; one that was dropped costs a lookup.
	MaxLanes int
	// LaneIDs is how many ids a lane keeps although the projection has them by
	// now. Default 256: what was looked up a moment ago stays valid.
	LaneIDs int
	// Unprojected is how many turns of one session may be ahead of the
	// projection before its appends wait for it. Default 20,000.
	Unprojected int
	// KnownCalls is how many tool calls are remembered with the path they
	// named, over all sessions. Default 65,536, about 100 bytes each.
	KnownCalls int
	// CommitTimeout bounds one commit; after it the outcome is unknown and the
	// turns are judged anew. Default 10 s.
	CommitTimeout time.Duration
	// AppendTimeout bounds an append whose context has no deadline. Default 30 s.
	AppendTimeout time.Duration
	// Tries of one append before it gives up as unavailable. Default 8: a
	// session with two writers settles in two or three.
	Tries int
	// ForwardTimeout is how long the ingestor that holds the lease may take to
	// answer for another one; then that one appends by itself. Default 1 s.
	ForwardTimeout time.Duration
	// Shun is how long a holder that did not answer is not asked again.
	// Default 3 s, after which its lease has ended if it is dead.
	Shun time.Duration
	// Backoff before the second try after the log was unavailable, doubling.
	// Default 20 ms.
	Backoff time.Duration
}

func (c Config) withDefaults() Config {
	if c.Defaults.Window == 0 && c.Defaults.FanoutMax == 0 {
		c.Defaults = events.DefaultSettings()
	}
	c.BatchEvents = cmp.Or(c.BatchEvents, 1000)
	c.BatchBytes = cmp.Or(c.BatchBytes, 8<<20)
	c.MaxWrites = cmp.Or(c.MaxWrites, 5000)
	c.MaxLanes = cmp.Or(c.MaxLanes, 4096)
	c.LaneIDs = cmp.Or(c.LaneIDs, 256)
	c.Unprojected = cmp.Or(c.Unprojected, 20_000)
	c.KnownCalls = cmp.Or(c.KnownCalls, 65_536)
	c.CommitTimeout = cmp.Or(c.CommitTimeout, 10*time.Second)
	c.AppendTimeout = cmp.Or(c.AppendTimeout, 30*time.Second)
	c.Tries = cmp.Or(c.Tries, 8)
	c.Backoff = cmp.Or(c.Backoff, 20*time.Millisecond)
	c.ForwardTimeout = cmp.Or(c.ForwardTimeout, time.Second)
	c.Shun = cmp.Or(c.Shun, 3*time.Second)
	return c
}

// Validate rejects contradictions.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	for _, f := range []struct {
		name string
		v    int
	}{
		{"batch_events", c.BatchEvents},
		{"batch_bytes", c.BatchBytes},
		{"max_writes", c.MaxWrites},
		{"max_lanes", c.MaxLanes},
		{"lane_ids", c.LaneIDs},
		{"unprojected", c.Unprojected},
		{"known_calls", c.KnownCalls},
		{"tries", c.Tries},
		{"commit_timeout", int(c.CommitTimeout)},
		{"append_timeout", int(c.AppendTimeout)},
		{"backoff", int(c.Backoff)},
		{"forward_timeout", int(c.ForwardTimeout)},
		{"shun", int(c.Shun)},
	} {
		if f.v < 0 {
			errs = append(errs, fmt.Errorf("%s cannot be negative", f.name))
		}
	}
	if c.Unprojected < c.LaneIDs {
		errs = append(errs, fmt.Errorf("unprojected %d is below lane_ids %d", c.Unprojected, c.LaneIDs))
	}
	if err := c.Defaults.ValidateNew(); err != nil {
		errs = append(errs, fmt.Errorf("default settings: %w", err))
	}
	return errors.Join(errs...)
}

// Measures are the pure functions that fill in what a turn's source does not
// say. A nil one is the engine's own.
type Measures struct {
	Tokens      func(*events.TurnAppended) int
	InputTokens func(*events.TurnAppended) int
	// Describe a body that a call named a path for.
	Describe func(path string, body []byte) explore.Descriptor
}

func (m Measures) withDefaults() Measures {
	if m.Tokens == nil {
		m.Tokens = window.TurnTokens
	}
	if m.InputTokens == nil {
		m.InputTokens = condense.InputTokens
	}
	if m.Describe == nil {
		m.Describe = explore.Describe
	}
	return m
}

// Committed tells an observer of one commit.
type Committed struct {
	Events, Turns, Conflicts int
	Took                     time.Duration
	Err                      error // nil = everything was stored
}

// Deps are what the append path works with. Log and Lookup are required.
type Deps struct {
	Log    Log
	Lookup Lookup
	// Name of this ingestor among those that contend for the lease to commit.
	Name string
	// Forward sends prepared requests to the ingestor of a name, to its
	// AppendForwarded. api.ErrLogUnavailable: it cannot have got them. nil =
	// this ingestor always commits.
	Forward func(ctx context.Context, name string, requests []api.AppendRequest) ([]api.Forwarded, error)
	// Clock gives ingest times; nil = time.Now.
	Clock func() time.Time
	// NewID makes the id of a live turn without one; nil = a ULID.
	NewID    func() string
	Measures Measures
	// Observe is called after every commit, one at a time, by the committer: it
	// must be quick. nil = nobody.
	Observe func(Committed)
	// Answered is called after every append, beside others. nil = nobody.
	Answered func(r api.AppendRequest, reply *api.AppendReply, err error, took time.Duration)
	// Logger; nil = discarded.
	Logger *slog.Logger
}

func (d Deps) withDefaults() Deps {
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.NewID == nil {
		d.NewID = func() string { return ulid.Make().String() }
	}
	if d.Observe == nil {
		d.Observe = func(Committed) {}
	}
	if d.Answered == nil {
		d.Answered = func(api.AppendRequest, *api.AppendReply, error, time.Duration) {}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	d.Measures = d.Measures.withDefaults()
	return d
}
