package mapper

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/time/rate"

	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/mapjob"
	"lcm/tokens"
)

const (
	// leasesPerCall are claimed for each call at once, so that a worker has the
	// next row in hand when a call ends.
	leasesPerCall = 2
	// windowRows are in the queue for each that is worked on, and at least
	// minWindow: enough to cover the way from a result to the next row.
	windowRows = 16
	minWindow  = 512
	// windowBytes of rows are in the queue at most, whatever their number.
	windowBytes = 16 << 20
	// lookEvery: how often a runner looks whether the queue still has what it
	// put there.
	lookEvery = 2 * time.Second
	// finishedPage is how many rows are looked up at once.
	finishedPage = 1024
	// copiesAtOnce are published in one event.
	copiesAtOnce = 256
)

// errStopped: the job does not run any more, or runs another round.
var errStopped = errors.New("the job has stopped")

// pass is one reading of the input.
type pass struct {
	*runner
	job    *mapjob.Job
	limits mapjob.Limits
	lines  *mapjob.Lines
	seen   Seen
	pace   *rate.Limiter
	look   *time.Ticker
	page   map[uint64]bool // rows from pageAt on that have a result
	pageAt uint64
	batch  []api.RowMessage
	shared []mapjob.Result // copies of results, to be published
	quiet  int             // looks in a row that found nothing in the queue
}

func (p *pass) begin(ctx context.Context) (err error) {
	p.mu.Lock()
	p.out, p.copies, p.bytes, p.tokens, p.waiting = map[uint64]handed{}, map[uint64][]uint64{}, 0, 0, 0
	p.mu.Unlock()
	d := p.job.Definition
	src, err := p.s.d.Objects.Object(ctx, d.Input.Object)
	if err != nil {
		return err
	}
	p.lines = mapjob.NewLines(src)
	if d.Dedupe {
		if p.seen, err = p.s.d.NewSeen(); err != nil {
			return err
		}
	}
	if p.limits.RowsPerSecond > 0 {
		p.pace = rate.NewLimiter(rate.Limit(p.limits.RowsPerSecond), 1)
	}
	p.look = time.NewTicker(lookEvery)
	// Rows of an earlier pass may wait still: they are handed out anew.
	if err := p.s.d.Queue.CloseQueue(ctx, p.ref); err != nil {
		return err
	}
	q := api.RowQueue{Ref: p.ref, Definition: p.job.Seq, Round: p.job.Round, Limits: p.limits}
	return p.s.d.Queue.OpenQueue(ctx, q, p.limits.Concurrency*leasesPerCall*p.limits.RowsPerCall())
}

func (p *pass) end() {
	if p.look != nil {
		p.look.Stop()
	}
	if p.seen != nil {
		_ = p.seen.Close() // a scratch file
	}
}

func (p *pass) readAll(ctx context.Context) error {
	for {
		line, err := p.lines.Next()
		if errors.Is(err, io.EOF) {
			return p.drain(ctx)
		}
		if err != nil {
			return err
		}
		done, err := p.isDone(line.N)
		if err != nil {
			return err
		}
		if p.seen != nil && !line.Oversized() {
			if shared, err := p.share(ctx, line, done); err != nil || shared {
				if err != nil {
					return err
				}
				continue
			}
		}
		if done {
			continue
		}
		if err := p.handOut(ctx, line); err != nil {
			return err
		}
	}
}

// isDone looks rows up a page at a time. A row of the page that finishes later
// was handed out by this pass.
func (p *pass) isDone(n uint64) (bool, error) {
	if p.page == nil || n >= p.pageAt+finishedPage {
		p.pageAt, p.page = n, map[uint64]bool{}
		err := p.s.d.Store.View(func(tx api.JobTx) error {
			return tx.RowsFrom(p.ref, n, func(row *mapjob.Row) (bool, error) {
				p.page[row.Row] = row.Finished(p.job.Round)
				return row.Row+1 < n+finishedPage, nil
			})
		})
		if err != nil {
			return false, err
		}
	}
	return p.page[n], nil
}

// share lets a row that was there before have the result of the first one like
// it: at once where it is known, else when it comes.
func (p *pass) share(ctx context.Context, line mapjob.Line, done bool) (bool, error) {
	first, err := p.seen.First(line.Hash, line.N)
	if err != nil || first == line.N || done {
		return done, err
	}
	p.mu.Lock()
	if _, ok := p.out[first]; ok {
		p.copies[first] = append(p.copies[first], line.N)
		p.waiting++
		p.mu.Unlock()
		return true, p.room(ctx, 0, 0)
	}
	p.mu.Unlock()
	return true, p.copyOf(ctx, first, line.N)
}

// copyOf gives rows the result of another. Where that one has none after all,
// they are left to the next pass.
func (p *pass) copyOf(ctx context.Context, first uint64, rows ...uint64) error {
	var have *mapjob.Row
	err := p.s.d.Store.View(func(tx api.JobTx) (err error) { have, err = tx.Row(p.ref, first); return err })
	if err != nil || !have.Finished(p.job.Round) {
		return err
	}
	if err := p.s.fetch(ctx, p.ref, have); err != nil {
		return err
	}
	for _, n := range rows {
		p.shared = append(p.shared, mapjob.Result{Row: n, Round: p.job.Round, Value: have.Value, Error: have.Error, SameAs: first})
		if len(p.shared) >= copiesAtOnce || have.InLog {
			if err := p.publishShared(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pass) publishShared(ctx context.Context) error {
	if len(p.shared) == 0 {
		return nil
	}
	err := p.s.publish(ctx, p.ref, mapjob.RowsFinished{Results: p.shared})
	if err == nil {
		p.s.d.Finish.tell(p.job.Definition.Op, p.shared...)
	}
	p.shared = p.shared[:0]
	return err
}

// ready gives the copies of rows that have finished meanwhile their result.
func (p *pass) ready(ctx context.Context) error {
	p.mu.Lock()
	var firsts []uint64
	for n := range p.copies {
		if _, waits := p.out[n]; !waits {
			firsts = append(firsts, n)
		}
	}
	p.mu.Unlock()
	for _, n := range firsts {
		p.mu.Lock()
		rows := p.copies[n]
		delete(p.copies, n)
		p.waiting -= len(rows)
		p.mu.Unlock()
		if err := p.copyOf(ctx, n, rows...); err != nil {
			return err
		}
	}
	return nil
}

// handOut puts a row into the queue once there is room.
func (p *pass) handOut(ctx context.Context, line mapjob.Line) error {
	h := handed{bytes: int64(len(line.Text)), tokens: p.worstCase(line)}
	if p.pace != nil {
		if !p.pace.Allow() {
			if err := p.flush(ctx); err != nil {
				return err
			}
			if err := p.pace.Wait(ctx); err != nil {
				return err
			}
		}
	}
	if err := p.room(ctx, h.bytes, h.tokens); err != nil {
		return err
	}
	if over := p.overLimit(h.tokens); over != nil {
		p.shared = append(p.shared, mapjob.Result{Row: line.N, Round: p.job.Round, Error: over})
		if len(p.shared) < copiesAtOnce {
			return nil
		}
		return p.publishShared(ctx)
	}
	p.mu.Lock()
	p.out[line.N] = h
	p.bytes += h.bytes
	p.tokens += h.tokens
	p.mu.Unlock()
	m := api.RowMessage{N: line.N, Round: p.job.Round, Text: line.Text, Size: line.Size}
	if line.Oversized() {
		m.Text = nil
	}
	p.batch = append(p.batch, m)
	if len(p.batch) >= 64 {
		return p.flush(ctx)
	}
	return nil
}

func (p *pass) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	err := p.s.d.Queue.Push(ctx, p.ref, p.batch)
	p.batch = p.batch[:0]
	return err
}

// worstCase is what a row may cost at most, in tokens, where a limit asks.
func (p *pass) worstCase(line mapjob.Line) int64 {
	d := p.job.Definition
	if d.Limits.MaxTokens == 0 && d.Limits.MaxCost == 0 || line.Oversized() {
		return 0
	}
	if d.Op == mapjob.AgenticMap {
		return int64(d.Limits.RowTokens)
	}
	in := tokens.Count(d.Prompt) + tokens.Count(string(d.Schema)) + tokens.Count(string(line.Text)) + 200
	// An attempt sees the answers before it, and what was wrong with them.
	n, out := int64(d.Limits.Attempts), int64(d.Limits.MaxOutputTokens)
	if d.Limits.RowsPerCall() > 1 {
		n++ // a batch that fails as a whole is no attempt at its rows
	}
	return n*(int64(in)+out) + n*(n-1)/2*(out+500)
}

// overLimit says why a row may not be begun. It counts what is spent and what
// the rows in hand may still cost.
func (p *pass) overLimit(more int64) *mapjob.RowError {
	l := p.limits
	if l.MaxTokens == 0 && l.MaxCost == 0 {
		return nil
	}
	j, err := p.s.job(p.ref)
	if err != nil {
		return nil // the next look tells
	}
	p.mu.Lock()
	reserved := p.tokens
	p.mu.Unlock()
	spent := j.Usage.Tokens()
	if l.MaxTokens > 0 && spent+reserved+more > l.MaxTokens {
		return mapjob.Failed(mapjob.Limit, "%d of %d tokens are spent, and the row may take %d", spent+reserved, l.MaxTokens, more)
	}
	price := max(p.s.c.Prices.Input, p.s.c.Prices.Output) / 1e6
	cost, most := float64(j.Usage.Micros)/1e6+float64(reserved)*price, float64(more)*price
	if l.MaxCost > 0 && cost+most > l.MaxCost {
		return mapjob.Failed(mapjob.Limit, "%.4f of %.4f are spent, and the row may take %.4f", cost, l.MaxCost, most)
	}
	return nil
}

// room waits until a row of so many bytes may be handed out. Where the limit
// of tokens is near it waits for rows in hand, whose real cost is lower.
func (p *pass) room(ctx context.Context, bytes, tokens int64) error {
	window := max(minWindow, windowRows*p.limits.Concurrency*p.limits.RowsPerCall())
	full := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.out) >= window || p.waiting >= 16*window || len(p.out) > 0 && p.bytes+bytes > windowBytes
	}
	near := func() bool {
		p.mu.Lock()
		held := len(p.out)
		p.mu.Unlock()
		return held > 0 && tokens > 0 && p.overLimit(tokens) != nil
	}
	return p.until(ctx, func() bool { return !full() && !near() })
}

// drain waits until everything that was handed out has its result.
func (p *pass) drain(ctx context.Context) error {
	if err := p.until(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.out) == 0 && p.waiting == 0
	}); err != nil {
		return err
	}
	return p.publishShared(ctx)
}

// until waits for a condition, and meanwhile looks at the job and the queue.
func (p *pass) until(ctx context.Context, holds func() bool) error {
	for first := true; ; first = false {
		if holds() {
			return nil
		}
		if first {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.changed:
			if err := p.ready(ctx); err != nil {
				return err
			}
		case <-p.look.C:
			if err := p.lookAround(ctx); err != nil {
				return err
			}
			continue
		}
		if err := p.running(); err != nil {
			return err
		}
	}
}

func (p *pass) running() error {
	j, err := p.s.job(p.ref)
	if err == nil && (j.State != mapjob.Running || j.Round != p.job.Round) {
		err = errStopped
	}
	return err
}

// lookAround finds out whether the queue lost what was put there: a server
// that restarts forgets it. Rows in hand without a trace in the queue, twice
// in a row with nothing coming, are lost.
func (p *pass) lookAround(ctx context.Context) error {
	if err := p.running(); err != nil {
		return err
	}
	st, err := p.s.d.Queue.Queue(ctx, p.ref)
	if problem.IsCode(err, problem.NotFound) {
		return errLost
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	held := len(p.out) - len(p.batch)
	p.mu.Unlock()
	if held == 0 || st.Waiting > 0 || st.Leased > 0 {
		p.quiet = 0
		return nil
	}
	if p.quiet++; p.quiet >= 2 {
		p.quiet = 0
		return errLost
	}
	return nil
}
