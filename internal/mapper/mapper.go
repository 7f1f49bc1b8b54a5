// Package mapper runs map jobs. A Service keeps the jobs' state, hands their
// rows to the work queue, and answers questions; Workers, here and in any
// number of other processes, claim rows, call the model, and publish results.
//
// A job is its events (package mapjob). What is in the queue is disposable:
// the state knows which rows have no result, and the service hands them out
// again. A worker's claim is a lease; whoever dies, the first result of a row
// holds.
//
// It works over the small ports below and must never import an engine or an
// adapter.
package mapper

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"lcm/chat"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/problem"
	"lcm/mapjob"
)

// Events is the stream of all jobs' events. Publish is durable when it
// returns nil; after an error the event may be stored.
type Events interface {
	Epoch() string
	LastSeq(context.Context) (uint64, error)
	Event(ctx context.Context, seq uint64) (events.Record, error)
	Follow(ctx context.Context, after uint64, handle func(context.Context, []events.Record) error) error
	Publish(context.Context, events.Message) (uint64, error)
}

// Queue is the service's end of the work queue.
type Queue interface {
	OpenQueue(ctx context.Context, q api.RowQueue, leases int) error
	CloseQueue(context.Context, mapjob.Ref) error
	Queue(context.Context, mapjob.Ref) (api.QueueState, error)
	Push(context.Context, mapjob.Ref, []api.RowMessage) error
}

// Objects keeps inputs.
type Objects interface {
	PutObject(ctx context.Context, name string, r io.Reader) error
	Object(ctx context.Context, name string) (io.Reader, error)
	// ListObjects visits them all; DeleteObject of one that is not there is no
	// error.
	ListObjects(ctx context.Context, visit func(name string, stored time.Time) error) error
	DeleteObject(ctx context.Context, name string) error
}

// Store keeps the jobs' state. Update is durable or without effect.
type Store interface {
	Update(func(api.JobTx) error) error
	View(func(api.JobTx) error) error
}

// Seen finds equal rows of one pass over an input.
type Seen interface {
	First(hash [16]byte, row uint64) (uint64, error)
	Close() error
}

// Model answers; package llm implements it.
type Model interface {
	Chat(context.Context, chat.Request) (chat.Response, error)
}

// Config of a Service.
type Config struct {
	// Roots are directories below which input_path and output_path may lie.
	// None: neither is allowed.
	Roots []string
	// Configured is false where no model is: then no job can be begun.
	Configured bool
	// Tools that sub-agents may be given, and whether each changes nothing.
	Tools map[string]bool
	// KeepInputs is how long an input is kept behind the end of its last job,
	// for retries and aggregates over it. 0 = for ever.
	KeepInputs time.Duration
	// Prices of the model, for limits of cost.
	Prices Prices
}

// Prices of a million tokens, in a currency of the operator's.
type Prices struct{ Input, Output float64 }

// Micros is what a call cost, in millionths.
func (p Prices) Micros(input, output int) int64 {
	return int64(float64(input)*p.Input + float64(output)*p.Output)
}

// Deps of a Service.
type Deps struct {
	Events  Events
	Queue   Queue
	Objects Objects
	Store   Store
	// Grants of sub-agents; nil = no agentic maps are begun here.
	Grants  Grants
	NewSeen func() (Seen, error)
	Now     func() time.Time
	NewID   func() string
	Logger  *slog.Logger
	Finish  Finish
}

// Service is the one that knows the jobs. Run it once per log.
type Service struct {
	c Config
	d Deps

	applied *await.Mark // position folded

	mu      sync.Mutex
	ready   bool // what was published before Run is folded
	runners map[mapjob.Ref]*runner
	group   sync.WaitGroup
}

// New makes a Service over its ports.
func New(c Config, d Deps) *Service {
	return &Service{c: c, d: d, applied: await.At(0), runners: map[mapjob.Ref]*runner{}}
}

// Run folds the jobs' events and keeps running jobs supplied until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	at, err := s.checkpoint()
	if err != nil {
		return err
	}
	if at.Epoch != "" && at.Epoch != s.d.Events.Epoch() {
		return problem.New(problem.Damaged, "the store of map jobs was made from stream %s, this one is %s", at.Epoch, s.d.Events.Epoch()).
			WithHint("move the store aside: it is made anew")
	}
	s.applied.Set(at.Seq)
	ctx, cancel := context.WithCancel(ctx)
	defer s.group.Wait()
	defer cancel()
	end, err := s.d.Events.LastSeq(ctx)
	if err != nil {
		return err
	}
	s.group.Go(func() { s.startAll(ctx, end) })
	s.group.Go(func() { s.sweep(ctx, end) })
	return s.d.Events.Follow(ctx, at.Seq, s.keep)
}

// storeEvery: how often a store that takes nothing, as on a full disk, is tried
// again. Until then the jobs stand still, and nothing of them is lost.
const storeEvery = time.Second

// keep folds a batch once the store takes it.
func (s *Service) keep(ctx context.Context, batch []events.Record) error {
	for try := 1; ; try++ {
		err := s.apply(ctx, batch)
		if err == nil || isEnd(ctx, err) || problem.IsCode(err, problem.Damaged) {
			return err
		}
		if try == 1 {
			s.d.Logger.Error("the state of map jobs cannot be stored: they stand still until it can", "error", err)
		}
		if err := await.Sleep(ctx, storeEvery); err != nil {
			return err
		}
	}
}

func (s *Service) checkpoint() (at api.Checkpoint, err error) {
	err = s.d.Store.View(func(tx api.JobTx) error { at, err = tx.Checkpoint(); return err })
	return at, err
}

// startAll begins to supply the jobs that run, once everything that was
// published before is known: no row is handed out that has its result.
func (s *Service) startAll(ctx context.Context, end uint64) {
	if s.applied.Wait(ctx, end) != nil {
		return
	}
	s.mu.Lock()
	s.ready = true // from here on tell starts them
	s.mu.Unlock()
	var running []mapjob.Ref
	err := s.d.Store.View(func(tx api.JobTx) error {
		return tx.Jobs(func(j *mapjob.Job) (bool, error) {
			if j.State == mapjob.Running {
				running = append(running, j.Ref)
			}
			return true, nil
		})
	})
	if err != nil {
		s.d.Logger.Error("the running map jobs cannot be listed", "error", err)
	}
	for _, ref := range running {
		s.start(ctx, ref)
	}
}

// apply folds a batch and tells whom it concerns.
func (s *Service) apply(ctx context.Context, batch []events.Record) error {
	var all []mapjob.Applied
	last := batch[len(batch)-1].Seq
	err := s.d.Store.Update(func(tx api.JobTx) error {
		all = all[:0]
		for _, rec := range batch {
			a, err := mapjob.Apply(tx, rec)
			if err != nil {
				return err
			}
			if a.Rejected != "" {
				s.d.Logger.Warn("a map job's event changed nothing", "seq", rec.Seq, "reason", a.Rejected)
			}
			all = append(all, a)
		}
		return tx.SetCheckpoint(api.Checkpoint{Epoch: s.d.Events.Epoch(), Seq: last})
	})
	if err != nil {
		return err
	}
	s.applied.Set(last)
	for _, a := range all {
		s.tell(ctx, a)
	}
	return nil
}

// tell the runner of a job what came, and start one for a job that runs.
func (s *Service) tell(ctx context.Context, a mapjob.Applied) {
	if a.Ref == (mapjob.Ref{}) {
		return
	}
	s.mu.Lock()
	r, ready := s.runners[a.Ref], s.ready
	s.mu.Unlock()
	if r != nil {
		r.finished(a.Rows)
	}
	if r != nil || !ready {
		return
	}
	if len(a.Rows) == 0 && a.Rejected == "" { // a definition, a retry, or the end
		if j, err := s.job(a.Ref); err == nil && j.State == mapjob.Running {
			s.start(ctx, a.Ref)
		}
	}
}

// start supplies a job in the background, once.
func (s *Service) start(ctx context.Context, ref mapjob.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runners[ref] != nil || ctx.Err() != nil {
		return
	}
	r := newRunner(s, ref)
	s.runners[ref] = r
	s.group.Go(func() {
		r.run(ctx)
		s.mu.Lock()
		delete(s.runners, ref)
		s.mu.Unlock()
		// What was said between its last look and now.
		if j, err := s.job(ref); err == nil && j.State == mapjob.Running && ctx.Err() == nil {
			s.start(ctx, ref)
		}
	})
}

// Load is how many jobs have not ended, by what they do: "running" or "paused".
func (s *Service) Load() map[string]int {
	s.mu.Lock()
	refs := slices.Collect(maps.Keys(s.runners))
	s.mu.Unlock()
	out := map[string]int{"running": 0, "paused": 0}
	for _, ref := range refs {
		switch j, err := s.job(ref); {
		case err != nil || j.State != mapjob.Running:
		case j.Paused != "":
			out["paused"]++
		default:
			out["running"]++
		}
	}
	return out
}

// fresh waits for everything that is published now.
func (s *Service) fresh(ctx context.Context) error {
	end, err := s.d.Events.LastSeq(ctx)
	if err != nil {
		return err
	}
	return s.applied.Wait(ctx, end)
}

// publish stores an event and waits until it is folded.
func (s *Service) publish(ctx context.Context, ref mapjob.Ref, payload any) error {
	m, err := mapjob.Event(ref, payload, s.d.Now())
	if err != nil {
		return err
	}
	seq, err := s.d.Events.Publish(ctx, m)
	if err != nil {
		return err
	}
	return s.applied.Wait(ctx, seq)
}

// jobNow is the job after everything that is published now.
func (s *Service) jobNow(ctx context.Context, ref mapjob.Ref) (*mapjob.Job, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	return s.job(ref)
}

func (s *Service) job(ref mapjob.Ref) (*mapjob.Job, error) {
	var j *mapjob.Job
	err := s.d.Store.View(func(tx api.JobTx) (err error) { j, err = tx.Job(ref); return err })
	if err == nil && j == nil {
		return nil, problem.New(problem.NotFound, "there is no map job %s", ref.Job).WithHint("`lcm map list` lists them")
	}
	return j, err
}

// Finished reports whether a row needs no work in a round, after everything
// that is published now. Workers ask it of rows that were handed out before.
func (s *Service) Finished(ctx context.Context, ref mapjob.Ref, row uint64, round int) (bool, error) {
	if err := s.fresh(ctx); err != nil {
		return false, err
	}
	var done bool
	err := s.d.Store.View(func(tx api.JobTx) error {
		j, err := tx.Job(ref)
		if err != nil || j == nil {
			return err
		}
		r, err := tx.Row(ref, row)
		done = j.State != mapjob.Running || j.Round != round || r.Finished(round)
		return err
	})
	return done, err
}

// isEnd reports whether an error only says that the process stops.
func isEnd(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.Canceled)
}
