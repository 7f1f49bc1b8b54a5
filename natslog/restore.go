package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// metaRestoring of a log that is being restored is the epoch of the log it is
// a copy of. Nobody opens such a log.
const metaRestoring = "lcm-restoring"

// Restoration writes a copy of a log into a server that has none. It is used
// by one goroutine.
type Restoration struct {
	js jetstream.JetStream
	o  Options
	// left of a stream of map jobs are messages that a restore which goes on has
	// stored before.
	left map[string]uint64
}

// NewRestoration prepares a restore on the server behind nc. Nothing is
// touched before Begin.
func NewRestoration(nc *nats.Conn, o Options) (*Restoration, error) {
	o = o.withDefaults()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(o.CommitTimeout))
	if err != nil {
		return nil, fmt.Errorf("natslog: %w", err)
	}
	if err := checkPayload(nc); err != nil {
		return nil, err
	}
	return &Restoration{js: js, o: o, left: map[string]uint64{}}, nil
}

// Begin makes the streams under a new epoch, or goes on with a restore of the
// same origin that was interrupted; it answers how far that has come. A log
// that is not such a one is refused.
func (r *Restoration) Begin(ctx context.Context, origin string, partitions int) (uint64, error) {
	log, err := streamInfo(ctx, r.js, StreamLog)
	if err != nil {
		return 0, err
	}
	r.o.Partitions = partitions
	if log != nil {
		return r.goOn(log, origin)
	}
	for _, name := range []string{StreamInbox, StreamDead, StreamJobs, streamInputs} {
		other, err := streamInfo(ctx, r.js, name)
		if err != nil {
			return 0, err
		}
		if other != nil && other.State.Msgs > 0 {
			return 0, problem.New(problem.Conflict, "the stream %s holds %d messages of a log that is missing", name, other.State.Msgs).
				WithHint("restore into an empty store")
		}
	}
	c := logConfig(r.o.newEpoch(), r.o)
	c.Metadata[metaRestoring] = origin
	if err := createStream(ctx, r.js, c); err != nil {
		return 0, err
	}
	for _, c := range []jetstream.StreamConfig{inboxConfig(r.o), deadConfig(r.o)} {
		if err := createStream(ctx, r.js, c); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (r *Restoration) goOn(log *jetstream.StreamInfo, origin string) (uint64, error) {
	if from := log.Config.Metadata[metaRestoring]; from != origin {
		what := fmt.Sprintf("there is a log here already, %s, with %d events", log.Config.Metadata[metaEpoch], log.State.LastSeq)
		if from != "" {
			what = fmt.Sprintf("a restore of the log %s was interrupted here, this backup is of %s", from, origin)
		}
		return 0, problem.New(problem.Conflict, "%s", what).WithHint("restore into an empty data directory, or an empty server")
	}
	return log.State.LastSeq, nil
}

// Store stores messages behind position after, or none of them.
func (r *Restoration) Store(ctx context.Context, after uint64, messages []events.Message) error {
	msgs := make([]*nats.Msg, len(messages))
	for i, m := range messages {
		if most := r.js.Conn().MaxPayload(); int64(len(m.Data)) > most { // older builds wrote up to 4 MiB
			return problem.New(problem.Unavailable, "position %d has %d bytes, the NATS server takes messages of %d at most", after+1+uint64(i), len(m.Data), most).
				WithHint("set max_payload: 8MB in its configuration")
		}
		msgs[i] = published(StreamLog, m)
	}
	msgs[0].Header[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(after, 10)}
	last, err := r.publish(ctx, msgs)
	if err != nil {
		return problem.New(problem.Unavailable, "restore position %d: %w", after+1, err).WithHint("run the restore again: it goes on where it stopped")
	}
	if want := after + uint64(len(msgs)); last != want {
		return problem.New(problem.Internal, "restored events end at position %d, not %d", last, want)
	}
	return nil
}

func (r *Restoration) publish(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	if len(msgs) == 1 {
		ack, err := r.js.PublishMsg(ctx, msgs[0], jetstream.WithRetryAttempts(0))
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	}
	ack, err := jetstreamext.PublishMsgBatch(ctx, r.js, msgs, jetstreamext.BatchFlowControl{AckFirst: false})
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// Deliver puts a message back into the inbox under its first identity.
func (r *Restoration) Deliver(ctx context.Context, m events.Record, origin string) error {
	ref, err := events.ParseInboxSubject(m.Subject)
	subject := events.InboxSubject(ref)
	if err != nil { // no session's: it was stored, and is buried when it is read
		tail := strings.Split(m.Subject, ".")
		subject = "lcm.in." + strings.Join(tail[max(0, len(tail)-2):], ".")
	}
	m.Header[api.HeaderInboxOrigin] = origin
	return r.side(ctx, StreamInbox, subject, m)
}

// Bury puts a dead letter back. One that is there already is no error.
func (r *Restoration) Bury(ctx context.Context, m events.Record) error {
	return r.side(ctx, StreamDead, m.Subject, m)
}

// Map puts a message of the jobs' stream, or of that of their inputs, back.
func (r *Restoration) Map(ctx context.Context, stream string, m events.Record) error {
	left, known := r.left[stream]
	if !known {
		var err error
		if left, err = r.openMap(ctx, stream); err != nil {
			return err
		}
		r.left[stream] = left
	}
	if left > 0 {
		r.left[stream]--
		return nil
	}
	return r.side(ctx, stream, m.Subject, m)
}

// openMap makes the stream where there is none, and says what it holds.
func (r *Restoration) openMap(ctx context.Context, stream string) (uint64, error) {
	info, err := streamInfo(ctx, r.js, stream)
	if err != nil {
		return 0, err
	}
	if info != nil {
		return info.State.LastSeq, nil
	}
	if stream == StreamJobs {
		return 0, createStream(ctx, r.js, jobsConfig(r.o))
	}
	if _, err := r.js.CreateObjectStore(ctx, objectsConfig(r.o)); err != nil {
		return 0, unavailable("object store "+Bucket, err)
	}
	return 0, nil
}

func (r *Restoration) side(ctx context.Context, stream, subject string, m events.Record) error {
	m.Subject = subject
	if _, err := r.js.PublishMsg(ctx, published(stream, m.Message)); err != nil && !isPending(err) {
		return unavailable(fmt.Sprintf("restore %s %d", stream, m.Seq), err)
	}
	return nil
}

// Finish makes the log one that can be opened.
func (r *Restoration) Finish(ctx context.Context) error {
	s, err := r.js.Stream(ctx, StreamLog)
	if err != nil {
		return unavailable("stream "+StreamLog, err)
	}
	c := s.CachedInfo().Config
	delete(c.Metadata, metaRestoring)
	if _, err := r.js.UpdateStream(ctx, c); err != nil {
		return unavailable("finish the restore", err)
	}
	if s, err = r.js.Stream(ctx, StreamLog); err != nil {
		return unavailable("stream "+StreamLog, err)
	}
	if s.CachedInfo().Config.Metadata[metaRestoring] != "" {
		return errors.New("the restored log cannot be marked as whole")
	}
	return checkLog(s.CachedInfo())
}
