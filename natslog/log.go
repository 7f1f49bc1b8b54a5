package natslog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Options of Open. The zero value opens an existing log.
type Options struct {
	// Create the streams where no log exists.
	Create bool
	// Repair creates a missing inbox or dead-letter stream beside a log that
	// is in use. For `lcm init` only: the operator has seen the loss.
	Repair bool
	// Partitions of a new log, 0 = events.DefaultPartitions. Fixed for ever.
	Partitions int
	// Replicas of new streams: 1 or 3, 0 = 1.
	Replicas int
	// Epoch of a new log, "" = a new ULID.
	Epoch string
	// AckWait of tasks and inbox messages: without a sign of life for this
	// long they are delivered again. 0 = 30 s.
	AckWait time.Duration
	// CommitTimeout bounds one publish whose context has no deadline; after
	// it the outcome is unknown. 0 = 5 s.
	CommitTimeout time.Duration
	// Clock stamps dead letters that carry no time; nil = time.Now.
	Clock func() time.Time
	// Wrap stands between Commit and the server: tests put faults there. nil =
	// nothing does.
	Wrap func(Publisher) Publisher
	// Logger for reconnects and resets; nil = discarded.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Partitions == 0 {
		o.Partitions = events.DefaultPartitions
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.AckWait == 0 {
		o.AckWait = 30 * time.Second
	}
	if o.CommitTimeout == 0 {
		o.CommitTimeout = 5 * time.Second
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) newEpoch() string {
	if o.Epoch != "" {
		return o.Epoch
	}
	return ulid.Make().String()
}

// Log is an open log. Its methods may be called concurrently. It does not own
// the connection.
type Log struct {
	nc         *nats.Conn
	js         jetstream.JetStream
	publisher  Publisher
	log, dead  jetstream.Stream
	epoch      string
	partitions int
	o          Options
	bucket     atomic.Pointer[jetstream.KeyValue] // of grants, once it was needed
	// What does not work is said once.
	inboxTrouble, followTrouble, taskTrouble problem.Trouble
}

// Open opens the log on the server behind nc. A log that is missing although
// it was there, or that has lost events, is the problem "damaged"; one that
// was never made, or a server that does not answer, "unavailable".
func Open(ctx context.Context, nc *nats.Conn, o Options) (*Log, error) {
	o = o.withDefaults()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(o.CommitTimeout))
	if err != nil {
		return nil, fmt.Errorf("natslog: %w", err)
	}
	if err := checkPayload(nc); err != nil {
		return nil, err
	}
	info, err := ensure(ctx, js, o)
	if err != nil {
		return nil, err
	}
	l := &Log{nc: nc, js: js, epoch: info.Config.Metadata[metaEpoch], o: o, publisher: direct{js}}
	if o.Wrap != nil {
		l.publisher = o.Wrap(l.publisher)
	}
	l.o.Replicas = info.Config.Replicas
	if l.partitions, err = strconv.Atoi(info.Config.Metadata[metaPartitions]); err != nil {
		return nil, problem.New(problem.Damaged, "partition count of %s: %w", StreamLog, err)
	}
	if l.log, err = js.Stream(ctx, StreamLog); err != nil {
		return nil, unavailable("stream "+StreamLog, err)
	}
	if l.dead, err = js.Stream(ctx, StreamDead); err != nil {
		return nil, unavailable("stream "+StreamDead, err)
	}
	return l, nil
}

// Epoch names this log; positions of another epoch mean nothing here.
func (l *Log) Epoch() string { return l.epoch }

// Partitions of the log.
func (l *Log) Partitions() int { return l.partitions }

// LastSeq is the position of the newest message, 0 for an empty log; see End.
func (l *Log) LastSeq(ctx context.Context) (uint64, error) {
	info, err := l.info(ctx)
	if err != nil {
		return 0, err
	}
	return info.State.LastSeq, nil
}

// info reads the log's state and checks that it still is this log.
func (l *Log) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	info, err := streamInfo(ctx, l.js, StreamLog)
	if err != nil {
		return nil, err
	}
	if info == nil {
		return nil, problem.New(problem.Damaged, "the log stream %s has disappeared", StreamLog).
			WithHint("restore a backup with `lcm restore`")
	}
	if got := info.Config.Metadata[metaEpoch]; got != l.epoch {
		return nil, problem.New(problem.Damaged, "the log's epoch is %s, it was %s: another log has taken its place", got, l.epoch).
			WithHint("restart this process; its projections will have to be rebuilt")
	}
	return info, nil
}

// LastOf is the position of the newest event of a subject, 0 = none. On a
// replicated log the answer may lag: it is an expectation, not a proof. A large
// event there that was left unfinished is ended first.
func (l *Log) LastOf(ctx context.Context, subject string) (uint64, error) {
	for {
		m, err := l.log.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("last event of %s: %w: %w", subject, api.ErrLogUnavailable, err)
		}
		end, unfinished := events.Abandon(record(m.Subject, m.Header, m.Data, m.Sequence).Message)
		if !unfinished {
			return m.Sequence, nil
		}
		if err := l.abandon(ctx, end, m.Sequence); err != nil {
			return 0, err
		}
	}
}

// Message returns the message at a position: an event, or a part of one. A
// position that the log should hold and cannot give is "damaged", one beyond
// its end "not_found".
func (l *Log) Message(ctx context.Context, seq uint64) (events.Record, error) {
	if seq == 0 {
		return events.Record{}, problem.New(problem.NotFound, "positions start at 1")
	}
	m, err := l.log.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		last, lerr := l.LastSeq(ctx)
		switch {
		case lerr != nil:
			return events.Record{}, lerr
		case seq > last:
			return events.Record{}, problem.New(problem.NotFound, "position %d: the log ends at %d", seq, last)
		case l.o.Replicas > 1: // a follower that lags answered
			return events.Record{}, problem.New(problem.Unavailable, "position %d is not readable yet", seq)
		}
		return events.Record{}, lost(seq)
	}
	if err != nil {
		return events.Record{}, unavailable(fmt.Sprintf("read position %d", seq), err)
	}
	return record(m.Subject, m.Header, m.Data, m.Sequence), nil
}

func lost(seq uint64) error {
	return problem.New(problem.Damaged, "the event at position %d cannot be read", seq).
		WithHint("repair the log from a backup: `lcm doctor --repair --from DIR`")
}

// record keeps every header but the server's own.
func record(subject string, h nats.Header, data []byte, seq uint64) events.Record {
	header := make(events.Header, len(h))
	for name, values := range h {
		if len(values) > 0 && !strings.HasPrefix(name, "Nats-") {
			header[name] = values[0]
		}
	}
	return events.Record{Message: events.Message{Subject: subject, Header: header, Data: data}, Seq: seq}
}

// sequence is the position of a delivered message and how many are behind it, as
// its reply subject says: its Metadata, without what nobody asks for.
//
//	$JS.ACK.<stream>.<consumer>.<deliveries>.<position>.<delivery>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.… and a token behind it
func sequence(m jetstream.Msg) (seq, pending uint64, err error) {
	var tokens [12]string
	n := 0
	for rest, more := m.Reply(), true; more && n < len(tokens); n++ {
		tokens[n], rest, more = strings.Cut(rest, ".")
	}
	at := 5
	if n > 9 {
		at = 7
	}
	if n >= 9 {
		var err1, err2 error
		seq, err1 = strconv.ParseUint(tokens[at], 10, 64)
		pending, err2 = strconv.ParseUint(tokens[at+3], 10, 64)
		if err1 == nil && err2 == nil {
			return seq, pending, nil
		}
	}
	meta, err := m.Metadata()
	if err != nil {
		return 0, 0, err
	}
	return meta.Sequence.Stream, meta.NumPending, nil
}
