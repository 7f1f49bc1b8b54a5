package natslog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/mapjob"
)

// The streams of map jobs.
const (
	StreamJobs = "LCM_JOB"
	StreamRows = "LCM_ROW"
)

const (
	// wakeRows tells workers that the set of queues has changed.
	wakeRows = "lcm.wake.row"
	// claimWait is how long a claim asks for rows before it looks around.
	claimWait = 2 * time.Second

	headerRow   = "Lcm-Row"
	headerRound = "Lcm-Round"
	headerSize  = "Lcm-Size" // of a line whose text was left out

	metaJob        = "lcm-job"
	metaDefinition = "lcm-definition"
	metaRound      = "lcm-round"
	metaLimits     = "lcm-limits"
)

func jobsConfig(o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: StreamJobs, Subjects: []string{"lcm.job.*.*"},
		Description: "map jobs: their definitions, results, cancellations",
		Storage:     jetstream.FileStorage, Compression: jetstream.S2Compression,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		DenyDelete: true, DenyPurge: true, AllowDirect: true,
		Duplicates: noWindow, Replicas: o.Replicas,
		Metadata: map[string]string{metaEpoch: ulid.Make().String()},
	}
}

// rowsConfig: rows in memory, a bounded number of each job; what a restart of
// the server drops is handed out again, since the job's state knows what is
// missing.
func rowsConfig(o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: StreamRows, Subjects: []string{"lcm.row.*.*"},
		Description: "rows of map jobs that wait for a worker; disposable",
		Storage:     jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy,
		Discard: jetstream.DiscardNew,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		Duplicates: noWindow, Replicas: o.Replicas,
	}
}

// Jobs are the streams of map jobs. Its methods may be called concurrently.
type Jobs struct {
	Objects
	jobs  jetstream.Stream
	epoch string
	lease time.Duration
	// claims are handles of queues that rows are claimed from, by job.
	claims sync.Map
}

// JobOptions of Log.Jobs.
type JobOptions struct {
	// Create the stream of jobs where there is none.
	Create bool
	// Lease of a claimed row: without a sign of life for this long it is handed
	// out again. 0 = 30 s.
	Lease time.Duration
}

// Jobs opens the streams of map jobs.
func (l *Log) Jobs(ctx context.Context, o JobOptions) (*Jobs, error) {
	info, err := streamInfo(ctx, l.js, StreamJobs)
	if err != nil {
		return nil, err
	}
	if info == nil && !o.Create {
		return nil, problem.New(problem.Unavailable, "the stream %s does not exist", StreamJobs).WithHint("create it with `lcm init`")
	}
	if info == nil {
		if err := createStream(ctx, l.js, jobsConfig(l.o)); err != nil {
			return nil, err
		}
	}
	j := &Jobs{Objects: l.Objects(), lease: cmp.Or(o.Lease, 30*time.Second)}
	if j.jobs, err = l.js.Stream(ctx, StreamJobs); err != nil {
		return nil, unavailable("stream "+StreamJobs, err)
	}
	j.epoch = j.jobs.CachedInfo().Config.Metadata[metaEpoch]
	return j, j.ensureRows(ctx)
}

func (j *Jobs) ensureRows(ctx context.Context) error {
	have, err := streamInfo(ctx, j.l.js, StreamRows)
	if err != nil || have != nil {
		return err
	}
	return createStream(ctx, j.l.js, rowsConfig(j.l.o))
}

// Epoch names the stream of the jobs' events.
func (j *Jobs) Epoch() string { return j.epoch }

// LastSeq is the position of the newest job event.
func (j *Jobs) LastSeq(ctx context.Context) (uint64, error) {
	info, err := streamInfo(ctx, j.l.js, StreamJobs)
	if err != nil {
		return 0, err
	}
	if info == nil || info.Config.Metadata[metaEpoch] != j.epoch {
		return 0, problem.New(problem.Damaged, "the stream %s has disappeared", StreamJobs)
	}
	return info.State.LastSeq, nil
}

// Event is the job event at a position.
func (j *Jobs) Event(ctx context.Context, seq uint64) (events.Record, error) {
	m, err := j.jobs.GetMsg(ctx, seq)
	if err != nil {
		return events.Record{}, unavailable(fmt.Sprintf("read job event %d", seq), err)
	}
	return record(m.Subject, m.Header, m.Data, m.Sequence), nil
}

// Follow hands every job event after a position to handle; see Log.Follow.
func (j *Jobs) Follow(ctx context.Context, after uint64, handle func(context.Context, []events.Record) error) error {
	return j.l.follow(ctx, followed{StreamJobs, j.LastSeq, j.Event}, after, handle)
}

// Publish stores a job event durably. A publish that fails may have been
// stored: results may come twice.
func (j *Jobs) Publish(ctx context.Context, e events.Message) (uint64, error) {
	ack, err := j.l.js.PublishMsg(ctx, published(StreamJobs, e))
	if err != nil {
		return 0, unavailable("store a job event", err)
	}
	return ack.Sequence, nil
}

func rowSubject(r mapjob.Ref) string {
	return "lcm.row." + events.EncodeToken(r.Tenant) + "." + events.EncodeToken(r.Job)
}

// OpenQueue lets workers claim a job's rows, at most leases at once, over all
// workers: the server counts. Opening it again changes its limits.
func (j *Jobs) OpenQueue(ctx context.Context, q api.RowQueue, leases int) error {
	if err := j.ensureRows(ctx); err != nil {
		return err
	}
	limits, err := json.Marshal(q.Limits)
	if err != nil {
		return err
	}
	_, err = j.l.js.CreateOrUpdateConsumer(ctx, StreamRows, jetstream.ConsumerConfig{
		Durable: q.Ref.Job, FilterSubject: rowSubject(q.Ref), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: j.lease, MaxAckPending: leases, MaxDeliver: -1,
		Metadata: map[string]string{
			metaJob: q.Ref.Subject(), metaDefinition: strconv.FormatUint(q.Definition, 10),
			metaRound: strconv.Itoa(q.Round), metaLimits: string(limits),
		},
	})
	if err != nil {
		return unavailable("open the queue of job "+q.Ref.Job, err)
	}
	return j.wake()
}

func (j *Jobs) wake() error { return j.l.nc.Publish(wakeRows, nil) }

// CloseQueue drops a job's queue with the rows that wait in it. What workers
// hold they finish.
func (j *Jobs) CloseQueue(ctx context.Context, ref mapjob.Ref) error {
	err := j.l.js.DeleteConsumer(ctx, StreamRows, ref.Job)
	if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) {
		var s jetstream.Stream
		if s, err = j.l.js.Stream(ctx, StreamRows); err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(rowSubject(ref)))
		}
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return unavailable("close the queue of job "+ref.Job, err)
	}
	return j.wake()
}

// Queue is the state of a job's queue; it is "not_found" where there is none.
func (j *Jobs) Queue(ctx context.Context, ref mapjob.Ref) (api.QueueState, error) {
	c, err := j.l.js.Consumer(ctx, StreamRows, ref.Job)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return api.QueueState{}, problem.New(problem.NotFound, "job %s has no queue", ref.Job)
	}
	if err != nil {
		return api.QueueState{}, unavailable("queue of job "+ref.Job, err)
	}
	info := c.CachedInfo()
	return api.QueueState{Waiting: info.NumPending, Leased: info.NumAckPending}, nil
}

// Push puts rows into a job's queue. The rows go out together: a round trip
// for each would be the slowest part of a job.
func (j *Jobs) Push(ctx context.Context, ref mapjob.Ref, rows []api.RowMessage) error {
	stored := make([]jetstream.PubAckFuture, 0, len(rows))
	for _, r := range rows {
		m := nats.NewMsg(rowSubject(ref))
		m.Data = r.Text
		m.Header[headerRow] = []string{strconv.FormatUint(r.N, 10)}
		m.Header[headerRound] = []string{strconv.Itoa(r.Round)}
		if r.Text == nil {
			m.Header[headerSize] = []string{strconv.FormatInt(r.Size, 10)}
		}
		m.Header[jetstream.ExpectedStreamHeader] = []string{StreamRows}
		f, err := j.l.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
		if err != nil {
			return unavailable(fmt.Sprintf("queue row %d of job %s", r.N, ref.Job), err)
		}
		stored = append(stored, f)
	}
	ctx, cancel := context.WithTimeout(ctx, j.l.o.CommitTimeout)
	defer cancel()
	for i, f := range stored {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return unavailable(fmt.Sprintf("queue row %d of job %s", rows[i].N, ref.Job), err)
		case <-ctx.Done():
			return unavailable(fmt.Sprintf("queue row %d of job %s", rows[i].N, ref.Job), ctx.Err())
		}
	}
	return nil
}

// Queues are the open ones.
func (j *Jobs) Queues(ctx context.Context) ([]api.RowQueue, error) {
	s, err := j.l.js.Stream(ctx, StreamRows)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("stream "+StreamRows, err)
	}
	var out []api.RowQueue
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		if q, ok := rowQueue(info.Config.Metadata); ok {
			out = append(out, q)
		}
	}
	if err := list.Err(); err != nil {
		return nil, unavailable("list the queues", err)
	}
	return out, nil
}

func rowQueue(meta map[string]string) (q api.RowQueue, ok bool) {
	ref, err1 := mapjob.ParseSubject(meta[metaJob])
	seq, err2 := strconv.ParseUint(meta[metaDefinition], 10, 64)
	round, err3 := strconv.Atoi(meta[metaRound])
	q = api.RowQueue{Ref: ref, Definition: seq, Round: round}
	err4 := json.Unmarshal([]byte(meta[metaLimits]), &q.Limits)
	return q, errors.Join(err1, err2, err3, err4) == nil
}

// Woken calls f whenever queues were opened or closed, until stop is called.
func (j *Jobs) Woken(f func()) (stop func(), err error) {
	sub, err := j.l.nc.Subscribe(wakeRows, func(*nats.Msg) { f() })
	if err != nil {
		return nil, unavailable("listen for map jobs", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// AckWait is how long a claimed row waits for a sign of life.
func (j *Jobs) AckWait() time.Duration { return j.lease }

// Claim hands up to n rows of a job to take, as they come, for a short while.
// A queue that is gone is "not_found".
func (j *Jobs) Claim(ctx context.Context, ref mapjob.Ref, n int, take func(api.RowLease)) error {
	c, err := j.consumer(ctx, ref)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	batch, err := c.Fetch(n, jetstream.FetchContext(wait))
	if err != nil {
		return unavailable("claim rows of job "+ref.Job, err)
	}
	for m := range batch.Messages() {
		if lease, ok := rowLease(m); ok {
			take(lease)
		} else {
			_ = m.Term() // not one of ours
		}
	}
	if err := batch.Error(); err != nil && ctx.Err() == nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
		j.claims.Delete(ref)
		if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, nats.ErrNoResponders) {
			return problem.New(problem.NotFound, "job %s has no queue any more", ref.Job)
		}
		return unavailable("claim rows of job "+ref.Job, err)
	}
	return ctx.Err()
}

// consumer is the handle of a job's queue, asked for once.
func (j *Jobs) consumer(ctx context.Context, ref mapjob.Ref) (jetstream.Consumer, error) {
	if c, ok := j.claims.Load(ref); ok {
		return c.(jetstream.Consumer), nil
	}
	c, err := j.l.js.Consumer(ctx, StreamRows, ref.Job)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, problem.New(problem.NotFound, "job %s has no queue", ref.Job)
	}
	if err != nil {
		return nil, unavailable("claim rows of job "+ref.Job, err)
	}
	j.claims.Store(ref, c)
	return c, nil
}

// Leave forgets a job's queue.
func (j *Jobs) Leave(ref mapjob.Ref) { j.claims.Delete(ref) }

func rowLease(m jetstream.Msg) (api.RowLease, bool) {
	meta, err := m.Metadata()
	n, err1 := strconv.ParseUint(m.Headers().Get(headerRow), 10, 64)
	round, err2 := strconv.Atoi(m.Headers().Get(headerRound))
	if errors.Join(err, err1, err2) != nil {
		return api.RowLease{}, false
	}
	row := api.RowMessage{N: n, Round: round, Text: m.Data(), Size: int64(len(m.Data()))}
	if size, err := strconv.ParseInt(m.Headers().Get(headerSize), 10, 64); err == nil {
		row.Text, row.Size = nil, size
	} else if row.Text == nil {
		row.Text = []byte{}
	}
	return api.RowLease{
		Row: row, Again: meta.NumDelivered > 1, Alive: m.InProgress,
		Done:    func(context.Context) error { return m.Ack() },
		Release: m.NakWithDelay,
	}, true
}
