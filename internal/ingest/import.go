package ingest

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/transcript"
)

// importBatch is how many writes one append carries: what fits an atomic batch
// beside the settings of a new session.
const importBatch = 999

// maxProblems is how many refused records a report spells out; the dead letters
// have them all.
const maxProblems = 10

// importBytes ends a batch early, source bytes: an append is one request, also
// over HTTP.
const importBytes = 4 << 20

// ImportOptions say what is imported, and where to.
type ImportOptions struct {
	// Tenant of the sessions. Required.
	Tenant string
	// Session name; "" = the base name of File. A file with several
	// conversations makes sessions <name>-<line>, or <Session>-1, -2, …
	// where Session is given; a sidechain is <name>/<root uuid>.
	Session string
	// Format of the source; "" or transcript.Auto recognises it.
	Format transcript.Format
	// File is the name for reports and dead letters.
	File string
	// Settings of sessions that do not exist yet; nil = the ingestor's.
	Settings *events.Settings
	// Measures count and describe; nil functions are the engine's own.
	Measures Measures
	// Progress is called now and then, from one goroutine; nil = nobody.
	Progress func(api.ImportProgress)
	// Bury keeps refused lines; nil = they are only counted.
	Bury func(ctx context.Context, d api.DeadLetter) error
	// Clock stamps dead letters; nil = time.Now.
	Clock func() time.Time
}

// Import reads a transcript and appends it. Reading, preparing and appending
// run side by side; the order of the source is kept. Importing the same source
// again appends nothing. The error is about the whole import; the reports say
// how far it came.
func Import(ctx context.Context, r io.Reader, o ImportOptions, a Appender) ([]api.ImportReport, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.Measures = o.Measures.withDefaults()
	if o.File == "" {
		o.File = "-"
	}
	if err := (events.Ref{Tenant: o.Tenant, Session: "x"}).Validate(); err != nil {
		return nil, problem.New(problem.Invalid, "%w", err)
	}
	im := &importer{o: o, a: a, bySession: map[string]*sessionImport{}, read: new(atomic.Int64)}
	g, gctx := errgroup.WithContext(ctx)
	blocks := make(chan *block, 4)
	g.Go(func() error {
		defer close(blocks)
		return newReader(o).read(gctx, counted{r, im.read}, blocks)
	})
	g.Go(func() error { return im.consume(gctx, blocks) })
	err := g.Wait()
	return im.reports(), err
}

// counted counts what is read of a source.
type counted struct {
	io.Reader
	n *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// largeFileChars that turns are prepared for: a session that is there already
// may have another limit, and the ingestor prepares for that one again.
func (o ImportOptions) largeFileChars() int {
	if o.Settings != nil {
		return o.Settings.LargeFileChars
	}
	return events.DefaultSettings().LargeFileChars
}

// baseName of the sessions of a file.
func (o ImportOptions) baseName() string {
	if o.Session != "" {
		return o.Session
	}
	name := filepath.Base(o.File)
	if base := strings.TrimSuffix(name, filepath.Ext(name)); base != "" && base != "-" {
		return base
	}
	return "import"
}

// importer appends prepared items, session by session.
type importer struct {
	o         ImportOptions
	a         Appender
	bySession map[string]*sessionImport
	order     []*sessionImport
	progress  api.ImportProgress
	read      *atomic.Int64 // bytes of the source
}

// sessionImport is one session of the file.
type sessionImport struct {
	report   api.ImportReport
	token    events.Position
	settings *events.Settings
	pending  []source
	bytes    int
	// move is held: the next turn may express it.
	move *source
}

func (im *importer) consume(ctx context.Context, blocks <-chan *block) error {
	for b := range blocks {
		select {
		case <-b.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
		for i := range b.items {
			if err := im.add(ctx, &b.items[i]); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, s := range im.order {
		if s.move != nil {
			s.pending = append(s.pending, *s.move)
			s.move = nil
		}
		if err := im.flush(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (im *importer) session(it *readItem) *sessionImport {
	s := im.bySession[it.session]
	if s != nil {
		return s
	}
	s = &sessionImport{report: api.ImportReport{
		File: im.o.File, Session: it.session, Format: string(im.o.Format), Skipped: map[string]int{},
	}, settings: im.o.Settings}
	if it.parent != "" {
		settings := events.DefaultSettings()
		if im.o.Settings != nil {
			settings = *im.o.Settings
		}
		settings.ParentSession = it.parent
		s.settings = &settings
	}
	im.bySession[it.session] = s
	im.order = append(im.order, s)
	return s
}

func (im *importer) add(ctx context.Context, it *readItem) error {
	s := im.session(it)
	src := source{item: it.Item, write: it.write}
	switch it.Kind {
	case transcript.KindSkip:
		s.report.Skipped[it.Reason]++
		return nil
	case transcript.KindReject:
		return im.refuse(ctx, s, src, it.Reason)
	case transcript.KindMove:
		s.move = &src
		return nil
	case transcript.KindTurn:
		t := src.write.Turn
		if s.move != nil && t.ParentID == "" {
			t.ParentID = s.move.write.MoveTo
		}
		s.move = nil
		s.report.Turns++
		im.progress.Turns++
		if s.report.Format == "" || s.report.Format == string(transcript.Auto) {
			s.report.Format = t.Turn.Format
		}
		if it.err != nil {
			return im.refuse(ctx, s, src, it.err.Error())
		}
	}
	// The last write of a session waits for the next one, so that a move at
	// the end goes with the turns before it.
	if len(s.pending) >= importBatch || s.bytes >= importBytes {
		if err := im.flush(ctx, s); err != nil {
			return err
		}
	}
	s.pending = append(s.pending, src)
	s.bytes += len(it.Source)
	return nil
}

// flush appends what is pending and takes the answers into the report.
func (im *importer) flush(ctx context.Context, s *sessionImport) error {
	if len(s.pending) == 0 {
		return nil
	}
	page := s.pending
	s.pending, s.bytes = nil, 0
	ref := events.Ref{Tenant: im.o.Tenant, Session: s.report.Session}
	reply, err := im.a.Append(ctx, api.AppendRequest{Ref: ref, Writes: writesOf(page), Settings: s.settings, PreparedFor: im.o.largeFileChars()})
	if err != nil {
		return fmt.Errorf("%s, line %d: %w", im.o.File, page[0].item.Line, err)
	}
	for i, w := range reply.Written {
		switch isTurn := page[i].write.Turn != nil; {
		case w.Error != "":
			if err := im.refuse(ctx, s, page[i], w.Error); err != nil {
				return err
			}
		case isTurn && w.Duplicate:
			s.report.Duplicates++
		case isTurn:
			s.report.Appended++
		case !w.Duplicate:
			s.report.Facts++
		}
	}
	if reply.Token.Seq > s.token.Seq {
		s.token, s.report.Token = reply.Token, reply.Token.String()
	}
	im.progress.Bytes = im.read.Load()
	if im.o.Progress != nil {
		im.o.Progress(im.progress)
	}
	return nil
}

// refuse counts and buries an item.
func (im *importer) refuse(ctx context.Context, s *sessionImport, src source, reason string) error {
	it := src.item
	s.report.Rejected++
	if len(s.report.Problems) < maxProblems {
		s.report.Problems = append(s.report.Problems, fmt.Sprintf("line %d: %s", it.Line, reason))
	}
	if im.o.Bury == nil {
		return nil
	}
	ref := events.Ref{Tenant: im.o.Tenant, Session: s.report.Session}
	d := withHash(letter(ref, src, fmt.Sprintf("%s:%d", im.o.File, it.Line), s.report.Format, reason))
	d.Time = im.o.Clock().UTC().Format(time.RFC3339Nano)
	if err := im.o.Bury(ctx, d); err != nil {
		return fmt.Errorf("%s, line %d: keep the refused line: %w", im.o.File, it.Line, err)
	}
	return nil
}

func (im *importer) reports() []api.ImportReport {
	out := make([]api.ImportReport, len(im.order))
	for i, s := range im.order {
		out[i] = s.report
	}
	return out
}
