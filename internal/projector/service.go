package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// Service is a projector. Reads may be called from any goroutine, before,
// during and after Run; before it has opened its stores they wait.
type Service struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	decoder decoder

	opened chan struct{} // closed when the stores are open
	ended  chan struct{} // closed when Run has returned
	swaps  chan swap
	// suspects holds one: damage that a read met.
	suspects chan error

	// mu guards the stores: held for reading while one of them is used, for
	// writing while one is replaced.
	mu     sync.RWMutex
	store  api.Store
	index  api.Index
	closed bool

	applied *watermark    // rows
	indexed *watermark    // documents
	heard   atomic.Uint64 // position that has come from the log, applied or not

	debt debt

	rebuilding sync.Mutex
	indexing   sync.Mutex // held while the index is written or replaced, before mu
	scopes     scopeCache
	seats      seats
	kept       keptRows

	// trouble and others say once what does not work.
	trouble, indexTrouble, witnessTrouble, endTrouble problem.Trouble

	witnessed uint64 // position that the witness file has
}

// New makes a projector. Nothing is opened before Run.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil || deps.Stores == nil || deps.Indexes == nil || (deps.Due != nil && deps.Tasks == nil) {
		return nil, errors.New("projector: Log, Stores and Indexes are needed, and Tasks where Due is set")
	}
	for _, p := range cfg.Partitions {
		if p >= deps.Log.Partitions() {
			return nil, fmt.Errorf("projector: partition %d of a log of %d partitions", p, deps.Log.Partitions())
		}
	}
	cfg = cfg.withDefaults()
	if cfg.Partitions != nil {
		cfg.Partitions = slices.Sorted(slices.Values(cfg.Partitions))
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{
		cfg: cfg, deps: deps, log: deps.Logger,
		decoder: newDecoder(deps.Log.Partitions(), cfg.Partitions, cfg.Workers),
		opened:  make(chan struct{}), ended: make(chan struct{}), swaps: make(chan swap), suspects: make(chan error, 1),
		applied: newWatermark(0), indexed: newWatermark(0), seats: make(seats, cfg.Workers),
	}, nil
}

// Run opens the stores, follows the log, indexes and dispatches until ctx
// ends, which is no error. It runs once.
func (s *Service) Run(ctx context.Context) error {
	a, err := s.open(ctx)
	if err != nil {
		s.end()
		return err
	}
	defer s.end()
	s.log.Info("projector open", "applied", a.at.Seq, "indexed", s.indexed.Seq(), "epoch", a.at.Epoch)

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.followLoop(gctx, a) })
	g.Go(func() error { return s.indexLoop(gctx) })
	g.Go(func() error { return s.dispatchLoop(gctx) })
	g.Go(func() error { return s.witnessLoop(gctx) })
	g.Go(func() error { return s.mendLoop(gctx) })
	err = g.Wait()
	s.writeWitness() // all that was applied
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// open opens both stores and compares them with the log.
func (s *Service) open(ctx context.Context) (*applier, error) {
	store, err := s.deps.Stores.Open()
	if err != nil {
		return nil, err
	}
	a, err := newApplier(ctx, store, s.deps.Log, s.cfg.Partitions)
	if err == nil {
		err = s.checkWitness(ctx)
	}
	if err == nil {
		err = s.openIndex()
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	s.mu.Lock()
	s.store = store
	s.mu.Unlock()
	s.applied.Set(a.at.Seq)
	s.hear(a.at.Seq)
	close(s.opened)
	return a, nil
}

// end closes the stores; reads answer "unavailable" from now on.
func (s *Service) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	close(s.ended)
	var errs []error
	if s.index != nil {
		errs = append(errs, s.index.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if err := errors.Join(errs...); err != nil {
		s.log.Error("projector close", "error", err)
	}
	select {
	case <-s.opened:
	default:
		close(s.opened)
	}
}

func errClosed() error { return problem.New(problem.Unavailable, "the projector is not running") }

// use runs fn with the stores as they are now.
func (s *Service) use(fn func(store api.Store, index api.Index) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return errClosed()
	}
	return fn(s.store, s.index)
}
