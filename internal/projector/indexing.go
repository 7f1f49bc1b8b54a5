package projector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/problem"
	"lcm/session"
)

// indexLabel is what an index is made of; another one is made anew.
func (s *Service) indexLabel() string {
	return s.deps.Log.Epoch() + "/" + partitionNames(s.cfg.Partitions)
}

// openIndex opens the index, or makes a new one where it is damaged or of
// another log.
func (s *Service) openIndex() error {
	label := s.indexLabel()
	index, err := s.deps.Indexes.Open(label)
	if err != nil && !problem.IsCode(err, problem.Damaged) {
		return err
	}
	switch {
	case errors.Is(err, api.ErrOutdated):
		s.log.Info("index of another build or with other settings, making it anew from the rows", "error", err)
	case err != nil:
		s.log.Warn("index damaged, making it anew from the rows", "error", err)
	default:
		upto, had := index.Checkpoint()
		if had == label {
			s.setIndex(index, upto)
			return nil
		}
		if had != "" { // else it is new
			s.log.Warn("index of another log or of other partitions, making it anew", "had", had, "wanted", label)
		}
		if err := index.Close(); err != nil {
			s.log.Error("close the index of another log", "error", err)
		}
	}
	if index, err = s.deps.Indexes.Create(label); err != nil {
		return err
	}
	s.setIndex(index, 0)
	return nil
}

func (s *Service) setIndex(index api.Index, upto uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index = index
	s.indexed.Set(upto)
}

// recreateIndex drops the index; the loop fills the new one from the rows.
func (s *Service) recreateIndex() error {
	s.indexing.Lock()
	defer s.indexing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed()
	}
	if err := s.index.Close(); err != nil {
		s.log.Warn("close the old index", "error", err)
	}
	index, err := s.deps.Indexes.Create(s.indexLabel())
	if err != nil {
		return err
	}
	s.index = index
	s.indexed.Set(0)
	return nil
}

// reopenIndex opens what is on disk in place of the index in use, or a new one
// where that is damaged.
func (s *Service) reopenIndex() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed()
	}
	_ = s.index.Close() // it has said why it stopped, and may be closed already
	s.mu.Unlock()
	return s.openIndex()
}

// indexLoop keeps the index behind the rows. Nothing that happens to the index
// stops the service: it is made anew, or tried again with growing pauses, and
// status and doctor say meanwhile how far it is behind.
func (s *Service) indexLoop(ctx context.Context) error {
	err := s.use(func(_ api.Store, index api.Index) error { return index.Verify() })
	if err != nil {
		err = errIndex{err}
	}
	cost := firstCost
	for failures := 0; ; {
		if err != nil {
			failures++
			err = s.recover(ctx, err, failures)
		} else if err = s.awaitWork(ctx, cost); err == nil {
			from, start := s.indexed.Seq(), time.Now()
			if err = s.indexSome(ctx); err == nil {
				failures = 0
				s.indexTrouble.Over(s.log, "index", "index follows the rows again")
				if upto := s.indexed.Seq(); upto > from {
					cost = time.Since(start) / time.Duration(upto-from)
				}
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// firstCost of indexing a row, until one is measured.
const firstCost = 200 * time.Microsecond

// longestPause between two attempts at an index that keeps failing.
const longestPause = 5 * time.Second

// errIndex marks a failure of the index's side.
type errIndex struct{ err error }

func (e errIndex) Error() string { return e.err.Error() }
func (e errIndex) Unwrap() error { return e.err }

// recover makes anew what is damaged: the index, or the rows it is made of.
// Anything else, and what does not help the first time, is tried again later.
func (s *Service) recover(ctx context.Context, cause error, failures int) error {
	if failures > 1 || !damage(cause) {
		s.indexTrouble.Met(s.log, "index", "index behind, trying again", cause)
		if err := await.Sleep(ctx, min(s.cfg.IndexEvery<<min(failures, 10), longestPause)); err != nil {
			return err
		}
	}
	var index errIndex
	switch {
	case errors.Is(cause, api.ErrReopen):
		if err := s.reopenIndex(); err != nil {
			return errIndex{fmt.Errorf("%w: %w", api.ErrReopen, err)}
		}
	case !damage(cause):
		return nil
	case errors.As(cause, &index):
		s.log.Error("index damaged, making it anew from the rows", "error", cause)
		if err := s.recreateIndex(); err != nil {
			return errIndex{err}
		}
	case s.rebuilding.TryLock():
		defer s.rebuilding.Unlock()
		s.log.Error("store damaged, rebuilding from the log", "error", cause)
		_, _, err := s.rebuildStore(ctx)
		return err
	}
	return nil // or a rebuild is running
}

// awaitWork waits for rows that are not indexed, then until a batch is full or
// IndexEvery has passed, and then for the appends' sake. cost is what a row
// takes.
func (s *Service) awaitWork(ctx context.Context, cost time.Duration) error {
	upto, err := s.awaitRows(ctx)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, s.cfg.IndexEvery)
	_ = s.applied.Wait(wait, upto+uint64(s.cfg.IndexDocs)) // or what there is by then
	cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.yield(ctx, cost*time.Duration(min(s.applied.Seq()-upto, uint64(s.cfg.IndexDocs))))
}

// yield leaves the processors to the fold and the appends while events come
// fast and nobody waits for the index: for as long as makes the work ahead its
// share of the time, and longer the faster they come. A flood is over sooner
// than the index could follow it, and every batch of it holds the appends up.
func (s *Service) yield(ctx context.Context, work time.Duration) error {
	rest := work * time.Duration(100-s.cfg.IndexShare) / time.Duration(s.cfg.IndexShare)
	for rest > 0 && !s.indexed.demanded(s.applied.Seq()) {
		step := min(rest, s.cfg.IndexEvery)
		before, start := s.applied.Seq(), time.Now()
		if err := await.Sleep(ctx, step); err != nil {
			return err
		}
		// What was heard and is not applied counts: while a transaction is
		// written, the rows stand still.
		came, busy := s.heard.Load()-before, s.cfg.BusyEvents*uint64(time.Since(start))/uint64(s.cfg.IndexEvery)
		if came <= busy {
			return nil
		}
		rest -= max(step*time.Duration(busy)/time.Duration(came), step/maxYield)
	}
	return nil
}

// maxYield is how much more than its share the index leaves to others.
const maxYield = 20

// awaitRows returns how far the index is once the rows are further. Either may
// move: an index that was made anew goes back to 0.
func (s *Service) awaitRows(ctx context.Context) (upto uint64, err error) {
	for {
		upto, reset := s.indexed.State()
		applied, moved := s.applied.State()
		if applied > upto {
			return upto, nil
		}
		select {
		case <-reset:
		case <-moved:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// indexSome indexes the next rows. No search waits for it: the lock of the
// stores is held only to look at the rows, not while texts are fetched from the
// log, nor while the index writes.
func (s *Service) indexSome(ctx context.Context) error {
	from := s.indexed.Seq()
	docs, upto, err := s.docsBehind(ctx, from)
	if err != nil || upto <= from {
		return err
	}
	s.indexing.Lock()
	defer s.indexing.Unlock()
	var index api.Index
	if err := s.use(func(_ api.Store, now api.Index) error { index = now; return nil }); err != nil {
		return err
	}
	if s.indexed.Seq() != from {
		return nil // another index by now
	}
	if err := apply(index, docs, upto); err != nil {
		return err
	}
	s.indexed.Set(upto)
	return nil
}

// docsBehind makes the documents of the rows behind a position, and says how
// far they reach.
func (s *Service) docsBehind(ctx context.Context, from uint64) (docs []api.IndexDoc, upto uint64, err error) {
	sources, upto, err := s.sources(from)
	if err != nil {
		return nil, from, err
	}
	for _, src := range sources {
		more, err := s.docsOf(ctx, src)
		if damage(err) { // of the log: nothing here mends it, doctor counts it
			s.log.Error("turn cannot be indexed", "seq", src.row.Seq, "error", err)
		} else if err != nil {
			return nil, from, err
		}
		docs = append(docs, more...)
	}
	return docs, upto, nil
}

// apply writes documents; positions without any are not worth a batch.
func apply(index api.Index, docs []api.IndexDoc, upto uint64) error {
	if len(docs) == 0 {
		return nil
	}
	if err := index.Apply(docs, upto); err != nil {
		return errIndex{err}
	}
	return nil
}

// source is a feed row with what its documents are made of.
type source struct {
	row   api.FeedRow
	entry session.Entry
	node  session.Node
	body  []byte // payload of a turn; nil where only the log has it
}

// sources reads the feed behind a position, and how far that reaches.
func (s *Service) sources(from uint64) (out []source, upto uint64, err error) {
	err = s.look(func(tx api.StoreTx) error {
		at, err := tx.Checkpoint()
		if err != nil {
			return err
		}
		rows, err := tx.Feed(from, s.cfg.IndexDocs)
		if err != nil {
			return err
		}
		upto = at.Seq
		size := 0
		for i, row := range rows {
			src, err := readSource(tx, row)
			if err != nil {
				return err
			}
			out = append(out, src)
			size += len(src.body)
			if i+1 == s.cfg.IndexDocs || size > s.cfg.IndexBytes {
				upto = row.Seq
				break
			}
		}
		return nil
	})
	return out, upto, err
}

// readSource reads the rows behind a feed row. Nothing of it belongs to the
// transaction.
func readSource(tx api.StoreTx, row api.FeedRow) (source, error) {
	src := source{row: row}
	rows, err := tx.Rows(row.Ref)
	if err != nil {
		return src, err
	}
	r := session.NewReader(rows)
	if row.Kind == session.RowNode {
		src.node, err = r.Node(row.N)
		return src, err
	}
	t, err := storedTurn(r, row.N)
	if err != nil {
		err = fmt.Errorf("e%d of %s: %w", row.N, row.Ref, err)
	}
	src.entry, src.body = t.Entry, t.Payload
	return src, err
}

// docsOf makes the documents of a row.
func (s *Service) docsOf(ctx context.Context, src source) ([]api.IndexDoc, error) {
	if src.row.Kind == session.RowNode {
		return []api.IndexDoc{nodeDoc(src)}, nil
	}
	t, err := s.turnOf(ctx, src.row.Ref, src.entry, src.body)
	if err != nil {
		return nil, err
	}
	doc := api.IndexDoc{
		Seq: src.row.Seq, Kind: api.KindTurn, Ref: src.row.Ref, Role: string(src.entry.Role),
		Depth: api.NoDepth, Time: src.entry.When(), Text: t.DerivedText(),
	}
	docs := []api.IndexDoc{doc}
	for i, f := range t.Files {
		file := doc
		file.Kind, file.Part, file.Text = api.KindFile, i, fileText(t, f)
		docs = append(docs, file)
	}
	return docs, nil
}

func nodeDoc(src source) api.IndexDoc {
	return api.IndexDoc{
		Seq: src.row.Seq, Kind: api.KindSummary, Ref: src.row.Ref, Depth: src.node.Depth,
		Time: src.node.Time, Text: nodeText(src.node),
	}
}

// nodeText is what is searched of a node: its tiers.
func nodeText(n session.Node) string {
	if n.Rich == nil || n.Rich.Text == n.Primary.Text {
		return n.Primary.Text
	}
	return n.Primary.Text + "\n" + n.Rich.Text
}

// fileText is what is searched of a file: path, summary, body.
func fileText(t *events.TurnAppended, f events.File) string {
	body, err := fileBody(t, f)
	if err != nil {
		body = f.Head
	}
	return strings.Join([]string{f.Path, f.Summary, body}, "\n")
}

// fileBody finds a file's body in its turn; the id is the body's hash.
func fileBody(t *events.TurnAppended, f events.File) (string, error) {
	blocks := t.AllBlocks()
	if f.Block < 0 || f.Block >= len(blocks) {
		return "", problem.New(problem.Damaged, "file %s stands in block %d of a turn of %d blocks", f.ID, f.Block, len(blocks))
	}
	body := blocks[f.Block].DerivedText()
	if events.HashBytes([]byte(body)) == f.ID {
		return body, nil
	}
	return "", problem.New(problem.Damaged, "the text of block %d has another hash than file %s", f.Block, f.ID)
}

// turnOf decodes a turn's payload, fetching it from the log where the rows do
// not hold it.
func (s *Service) turnOf(ctx context.Context, ref events.Ref, e session.Entry, body []byte) (*events.TurnAppended, error) {
	if body == nil {
		var err error
		if body, err = s.bodyFromLog(ctx, ref, e); err != nil {
			return nil, err
		}
	}
	t, err := events.DecodeTurn(body)
	if err != nil {
		return nil, problem.New(problem.Damaged, "body of e%d of %s: %w", e.N, ref, err)
	}
	return t, nil
}

// bodyFromLog reads a large body and makes sure that it is the one the fold
// accepted.
func (s *Service) bodyFromLog(ctx context.Context, ref events.Ref, e session.Entry) ([]byte, error) {
	rec, err := s.deps.Log.Read(ctx, e.Seq)
	if err != nil {
		return nil, fmt.Errorf("body of e%d of %s: %w", e.N, ref, err)
	}
	d, err := session.Decode(rec)
	t, ok := d.Payload.(*events.TurnAppended)
	if err != nil || !ok || d.Ref != ref || t.ID != e.ID || t.ContentHash() != e.Hash {
		return nil, problem.New(problem.Damaged, "position %d of the log does not hold turn %q of %s any more", e.Seq, e.ID, ref).
			WithHint("run `lcm verify`; restore the log from a backup")
	}
	return rec.Data, nil
}
