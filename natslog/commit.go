package natslog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"lcm/events"
	"lcm/internal/api"
)

const (
	// maxSingles: up to here single publishes are cheaper than a batch, whose
	// fixed cost was measured at about 3 ms.
	maxSingles = 8
	// maxBatch is the server's limit of an atomic batch.
	maxBatch = 1000
	// maxBatchBytes keeps a batch below the stream's inbound queue.
	maxBatchBytes = 16 << 20
)

// Error codes that nats.go has no name for.
const (
	codeStoreFailed jetstream.ErrorCode = 10077
)

// Commit stores events, each subject's in order, and answers with the stream
// sequence of each, 0 = not stored. Per subject the first event's Expect is
// checked. Up to 8 events are published one by one (subjects concurrently),
// more as atomic batches of up to 1,000; a large event is an atomic batch of
// its own, and its position that of its last message.
//
// The error joins what happened to those at 0: an *api.ConflictError names the
// subjects that end elsewhere; of them nothing after the last stored event was
// or will be stored. api.ErrUnknownOutcome: any other event at 0 may be stored
// or not. api.ErrLogUnavailable: those at 0 were not stored. Nothing is
// retried here, except that a conflict does not keep others from being stored.
func (l *Log) Commit(ctx context.Context, batch []api.Append) ([]uint64, error) {
	if len(batch) == 0 {
		return nil, nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.o.CommitTimeout)
		defer cancel()
	}
	c := &commit{l: l, batch: batch, seqs: make([]uint64, len(batch)), conflicts: map[string]bool{}}
	if len(batch) <= maxSingles {
		c.singles(ctx)
	} else {
		c.batches(ctx)
	}
	return c.seqs, c.err()
}

// commit is one call of Commit. Indices are places in batch.
type commit struct {
	l     *Log
	batch []api.Append
	seqs  []uint64

	mu        sync.Mutex
	conflicts map[string]bool
	failed    error
}

func (c *commit) err() error {
	var errs []error
	if c.failed != nil {
		errs = append(errs, c.failed)
	}
	if len(c.conflicts) > 0 {
		errs = append(errs, &api.ConflictError{Subjects: slices.Sorted(maps.Keys(c.conflicts))})
	}
	return errors.Join(errs...)
}

// note records why the events of these subjects were not stored.
func (c *commit) note(err error, subjects ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, errConflict) {
		for _, s := range subjects {
			c.conflicts[s] = true
		}
		return
	}
	// An unknown outcome of one subject is never hidden by another's refusal.
	if c.failed == nil || errors.Is(err, api.ErrUnknownOutcome) {
		c.failed = err
	}
}

// bySubject groups places, in order of first appearance.
func (c *commit) bySubject(places []int) [][]int {
	at := map[string]int{}
	var out [][]int
	for _, i := range places {
		s := c.batch[i].Message.Subject
		k, ok := at[s]
		if !ok {
			k = len(out)
			at[s] = k
			out = append(out, nil)
		}
		out[k] = append(out[k], i)
	}
	return out
}

func (c *commit) subject(places []int) string { return c.batch[places[0]].Message.Subject }

// singles publishes one by one, subjects concurrently. A successor waits for
// its predecessor: pipelined, it would be stored after a refusal.
func (c *commit) singles(ctx context.Context) {
	groups := c.bySubject(upTo(len(c.batch)))
	if len(groups) == 1 {
		c.chain(ctx, groups[0])
		return
	}
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() { c.chain(ctx, g) })
	}
	wg.Wait()
}

func (c *commit) chain(ctx context.Context, places []int) {
	expect := c.batch[places[0]].Expect
	for _, i := range places {
		seq, err := c.send(ctx, i, &expect)
		if err != nil {
			c.note(classify(err), c.subject(places))
			return
		}
		c.seqs[i], expect = seq, seq
	}
}

// batches commits in atomic batches, in order; a subject that failed is left
// out of the later ones.
func (c *commit) batches(ctx context.Context) {
	expect := map[string]uint64{}
	for start := 0; start < len(c.batch) && c.failed == nil; {
		end, bytes := start, 0
		for end < len(c.batch) && end-start < maxBatch && (end == start || bytes < maxBatchBytes && !c.large(end)) {
			bytes += len(c.batch[end].Message.Data)
			if end++; c.large(end - 1) { // a batch of its own
				break
			}
		}
		var places []int
		for i := start; i < end; i++ {
			if !c.conflicts[c.batch[i].Message.Subject] {
				places = append(places, i)
			}
		}
		c.atomic(ctx, places, expect)
		start = end
	}
}

// atomic commits places as one batch. A conflict does not name its subject:
// those whose end is not the expected one are left out and the rest commits;
// where none shows, the batch is halved until one subject stands alone.
// expect holds where the subjects of earlier batches ended.
func (c *commit) atomic(ctx context.Context, places []int, expect map[string]uint64) {
	for len(places) > 0 {
		last, err := c.publish(ctx, places, expect)
		if err == nil {
			for k, i := range places {
				c.seqs[i] = last - uint64(len(places)-1-k)
				expect[c.batch[i].Message.Subject] = c.seqs[i]
			}
			return
		}
		groups := c.bySubject(places)
		if !errors.Is(err, errConflict) {
			c.note(err)
			return
		}
		if len(groups) == 1 {
			c.note(err, c.subject(places))
			return
		}
		rest, lerr := c.withoutConflicts(ctx, groups, expect)
		if lerr != nil {
			c.note(lerr)
			return
		}
		if len(rest) == len(places) {
			half := len(groups) / 2
			c.atomic(ctx, inOrder(groups[:half]), expect)
			if c.failed != nil {
				return
			}
			rest = inOrder(groups[half:])
		}
		places = rest
	}
}

// withoutConflicts drops the subjects that end behind where they should. One
// that seems to end before it may be read from a replica that lags.
func (c *commit) withoutConflicts(ctx context.Context, groups [][]int, expect map[string]uint64) ([]int, error) {
	var keep [][]int
	for _, g := range groups {
		got, err := c.l.LastOf(ctx, c.subject(g))
		if err != nil {
			return nil, err
		}
		if got > c.expected(g, expect) {
			c.note(errConflict, c.subject(g))
			continue
		}
		keep = append(keep, g)
	}
	return inOrder(keep), nil
}

func (c *commit) expected(places []int, expect map[string]uint64) uint64 {
	if seq, ok := expect[c.subject(places)]; ok {
		return seq
	}
	return c.batch[places[0]].Expect
}

// publish sends one batch and returns the sequence of its last message.
func (c *commit) publish(ctx context.Context, places []int, expect map[string]uint64) (uint64, error) {
	if len(places) == 1 {
		want := c.expected(places, expect)
		last, err := c.send(ctx, places[0], &want)
		if err != nil {
			return 0, classify(err)
		}
		return last, nil
	}
	msgs := make([]*nats.Msg, 0, len(places))
	seen := make(map[string]bool, len(places))
	for _, i := range places {
		subject := c.batch[i].Message.Subject
		if seen[subject] { // a second expectation within a batch is refused
			msgs = append(msgs, c.message(i, nil))
			continue
		}
		seen[subject] = true
		want := c.expected([]int{i}, expect)
		msgs = append(msgs, c.message(i, &want))
	}
	last, err := c.l.publisher.PublishBatch(ctx, msgs)
	if err != nil {
		return 0, classify(err)
	}
	return last, nil
}

// Publisher stores messages and answers with the stream sequence of the last
// one. An error says nothing of whether they were stored, unless the server
// says so in it. It retries nothing.
type Publisher interface {
	Publish(ctx context.Context, m *nats.Msg) (uint64, error)
	// PublishBatch stores all of them or none.
	PublishBatch(ctx context.Context, msgs []*nats.Msg) (uint64, error)
}

// direct is the Publisher of a connection.
type direct struct{ js jetstream.JetStream }

func (s direct) Publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	ack, err := s.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func (s direct) PublishBatch(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	ack, err := jetstreamext.PublishMsgBatch(ctx, s.js, msgs,
		jetstreamext.BatchFlowControl{AckFirst: false}) // a batch that is refused early is incomplete at its end
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// published is an event as a message to a stream.
func published(stream string, m events.Message) *nats.Msg {
	out := nats.NewMsg(m.Subject)
	out.Data = m.Data
	for name, v := range m.Header {
		out.Header[name] = []string{v}
	}
	out.Header[jetstream.ExpectedStreamHeader] = []string{stream}
	return out
}

func (c *commit) message(i int, expect *uint64) *nats.Msg {
	out := published(StreamLog, c.batch[i].Message)
	expecting(out, expect)
	return out
}

// errConflict stands for a refused expectation until it is known whose.
var errConflict = errors.New("expectation refused")

// classify says what a publish error means for the event. Only what the
// server refused before storing counts as not stored.
func classify(err error) error {
	var apiErr *jetstream.APIError
	var coded jetstream.JetStreamError
	if !errors.As(err, &apiErr) && errors.As(err, &coded) {
		apiErr = coded.APIError()
	}
	switch {
	case apiErr != nil:
		switch apiErr.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return errConflict
		case codeStoreFailed, jetstreamext.JSErrCodeBatchPublishDuplicateMsgID:
			return fmt.Errorf("%w: %w", api.ErrUnknownOutcome, err)
		}
		return fmt.Errorf("%w: %w", api.ErrLogUnavailable, err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse),
		errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrConnectionDraining),
		errors.Is(err, nats.ErrReconnectBufExceeded):
		return fmt.Errorf("%w: %w", api.ErrLogUnavailable, err)
	}
	return fmt.Errorf("%w: %w", api.ErrUnknownOutcome, err)
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// inOrder joins groups of places back into the order of the batch.
func inOrder(groups [][]int) []int {
	out := slices.Concat(groups...)
	slices.Sort(out)
	return out
}
