package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"lcm/events"
	"lcm/internal/problem"
)

const (
	// scanRecords and scanBytes end a batch of a scan.
	scanRecords = 512
	scanBytes   = 4 << 20
	// scanAhead and scanAheadBytes are asked for at once: a scan that has much
	// before it pays for few requests.
	scanAhead      = 10_000
	scanAheadBytes = 32 << 20
	// scanStall is how long a scan waits for an event that should come before
	// it looks whether there is one. Damage makes the server fall silent.
	scanStall = 2 * time.Second
	// sidePage is how many messages of the inbox or the dead letters are asked
	// for at once.
	sidePage = 256
)

// Inspect opens a log to look at it: what is damaged is no error here, nothing
// is created and nothing is checked but that there is a log. For verify,
// backup and repair; never append through it.
func Inspect(ctx context.Context, nc *nats.Conn, o Options) (*Log, error) {
	o = o.withDefaults()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(o.CommitTimeout))
	if err != nil {
		return nil, fmt.Errorf("natslog: %w", err)
	}
	l := &Log{nc: nc, js: js, o: o}
	if l.log, err = js.Stream(ctx, StreamLog); err != nil {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, problem.New(problem.NotFound, "there is no log here: the stream %s does not exist", StreamLog).
				WithHint("restore a backup with `lcm restore`")
		}
		return nil, unavailable("stream "+StreamLog, err)
	}
	c := l.log.CachedInfo().Config
	l.epoch, l.o.Replicas = c.Metadata[metaEpoch], c.Replicas
	if l.partitions, err = strconv.Atoi(c.Metadata[metaPartitions]); err != nil || l.partitions < 1 {
		return nil, problem.New(problem.Damaged, "the stream %s has partition count %q", StreamLog, c.Metadata[metaPartitions]).
			WithHint("this is not a log that lcm made; see `nats stream info %s`", StreamLog)
	}
	if l.dead, err = js.Stream(ctx, StreamDead); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, unavailable("stream "+StreamDead, err)
	}
	return l, nil
}

// Extent is what the log says of itself: its first and last position and how
// many messages it holds. Damage can make it say too little. A batch that is
// being stored is waited for.
func (l *Log) Extent(ctx context.Context) (first, last, held uint64, err error) {
	for {
		info, err := l.info(ctx)
		if err != nil {
			return 0, 0, 0, err
		}
		st := info.State
		if st.LastSeq == last {
			return st.FirstSeq, st.LastSeq, st.Msgs, nil
		}
		last = st.LastSeq
		m, err := l.Message(ctx, last) // not given while a batch is being stored
		if _, unfinished := events.Abandon(m.Message); err != nil || !unfinished {
			return st.FirstSeq, st.LastSeq, st.Msgs, nil
		}
	}
}

// Scan hands over every message behind after up to until that the log can give,
// in order, in batches, and returns; an events.Joiner makes events of them.
// Positions it cannot give are left out: the caller sees the gap. It is Follow
// for who must look beyond damage.
func (l *Log) Scan(ctx context.Context, after, until uint64, handle func(context.Context, []events.Record) error) error {
	last := after
	for last < until {
		end, progress, err := l.scanOnce(ctx, last, until, handle)
		if err != nil {
			return err
		}
		last = end
		if last < until && !progress { // the server is silent: ask for every position
			return l.scanSlowly(ctx, last, until, handle)
		}
	}
	return nil
}

// scanOnce reads with one consumer as far as it comes.
func (l *Log) scanOnce(ctx context.Context, after, until uint64, handle func(context.Context, []events.Record) error) (last uint64, progress bool, err error) {
	cons, err := l.js.OrderedConsumer(ctx, StreamLog, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1, InactiveThreshold: followIdle,
	})
	if err != nil {
		return after, false, unavailable("read the log", err)
	}
	s := newScan(ctx, until)
	cc, err := cons.Consume(s.take, jetstream.PullMaxMessagesWithBytesLimit(scanAhead, scanAheadBytes),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { s.fail(err) }))
	if err != nil {
		return after, false, unavailable("read the log", err)
	}
	defer func() {
		s.stop()
		cc.Stop()
		<-cc.Closed()
	}()
	last = after
	stall := time.NewTimer(scanStall)
	defer stall.Stop()
	for {
		var batch []events.Record
		silent := false
		select {
		case batch = <-s.full:
		case <-s.failed:
			batch, silent = s.rest(), true
		case <-stall.C:
			batch = s.rest()
			silent = len(batch) == 0
		case <-ctx.Done():
			return last, false, ctx.Err()
		}
		for len(batch) > 0 && batch[0].Seq <= last { // a consumer that began anew
			batch = batch[1:]
		}
		if n := len(batch); n > 0 {
			if err := handle(ctx, batch); err != nil {
				return last, progress, err
			}
			last, progress = batch[n-1].Seq, true
		}
		if last >= until || silent || s.ended(last) {
			return max(last, s.reached(last)), progress, nil
		}
		stall.Reset(scanStall)
	}
}

// scan collects what a consumer delivers.
type scan struct {
	until  uint64
	full   chan []events.Record
	failed chan error
	ctx    context.Context
	stop   context.CancelFunc

	mu    sync.Mutex
	batch []events.Record
	bytes int
	// end: the last message the consumer has is at this position.
	end uint64
}

func newScan(ctx context.Context, until uint64) *scan {
	s := &scan{until: until, full: make(chan []events.Record, 4), failed: make(chan error, 1)}
	s.ctx, s.stop = context.WithCancel(ctx)
	return s
}

func (s *scan) take(m jetstream.Msg) {
	seq, pending, err := sequence(m)
	if err != nil {
		s.fail(err)
		return
	}
	s.mu.Lock()
	if seq <= s.until {
		s.batch = append(s.batch, record(m.Subject(), m.Headers(), m.Data(), seq))
		s.bytes += len(m.Data())
	}
	if pending == 0 || seq >= s.until {
		s.end = seq
	}
	var out []events.Record
	if len(s.batch) >= scanRecords || s.bytes >= scanBytes || s.end != 0 {
		out, s.batch, s.bytes = s.batch, nil, 0
	}
	s.mu.Unlock()
	if len(out) > 0 {
		select {
		case s.full <- out:
		case <-s.ctx.Done():
		}
	}
}

func (s *scan) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// rest is what was collected and not handed over.
func (s *scan) rest() []events.Record {
	select {
	case out := <-s.full:
		return out
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.batch
	s.batch, s.bytes = nil, 0
	return out
}

// ended: nothing comes behind position last.
func (s *scan) ended(last uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end != 0 && last >= min(s.end, s.until)
}

// reached is how far the scan is done: an event beyond until ends it there.
func (s *scan) reached(last uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end >= s.until {
		return s.until
	}
	return last
}

// scanSlowly asks for each position by itself: what it does not get is lost.
func (l *Log) scanSlowly(ctx context.Context, after, until uint64, handle func(context.Context, []events.Record) error) error {
	for seq := after + 1; seq <= until; seq++ {
		m, err := l.log.GetMsg(ctx, seq)
		var apiErr *jetstream.APIError
		switch {
		case err == nil:
			if err := handle(ctx, []events.Record{record(m.Subject, m.Header, m.Data, m.Sequence)}); err != nil {
				return err
			}
		case errors.Is(err, jetstream.ErrMsgNotFound), errors.As(err, &apiErr):
		default:
			return unavailable(fmt.Sprintf("read position %d", seq), err)
		}
	}
	return nil
}

// Pending hands over the messages of a stream beside the log, oldest first, as they are stored. A stream that
// does not exist has none.
func (l *Log) Pending(ctx context.Context, stream string, each func(events.Record) error) error {
	for after := uint64(0); ; {
		msgs, err := jetstreamext.GetBatch(ctx, l.js, stream, sidePage, jetstreamext.GetBatchSeq(after+1), jetstreamext.GetBatchMaxBytes(scanBytes))
		if err != nil {
			return unavailable("read "+stream, err)
		}
		n := 0
		for m, err := range msgs {
			if errors.Is(err, jetstreamext.ErrNoMessages) {
				break
			}
			if errors.Is(err, nats.ErrNoResponders) {
				if info, ierr := streamInfo(ctx, l.js, stream); ierr == nil && info == nil {
					return nil
				}
			}
			if err != nil {
				return unavailable("read "+stream, err)
			}
			if err := each(record(m.Subject, m.Header, m.Data, m.Sequence)); err != nil {
				return err
			}
			after, n = m.Sequence, n+1
		}
		if n == 0 {
			return nil
		}
	}
}
