package bleveindex_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lcm/bleveindex"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string, o bleveindex.Options) *bleveindex.Index {
	t.Helper()
	x, err := bleveindex.Open(dir, o)
	must(t, err)
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func doc(seq uint64, tenant, session, text string) bleveindex.Doc {
	return bleveindex.Doc{
		Seq: seq, Kind: api.KindTurn, Ref: events.Ref{Tenant: tenant, Session: session}, Role: "user",
		Depth: api.NoDepth, Time: day.Add(time.Duration(seq) * time.Hour), Text: text,
	}
}

func seqs(h bleveindex.Hits) (out []uint64) {
	for _, hit := range h.Hits {
		out = append(out, hit.Seq)
	}
	return out
}

func TestFilters(t *testing.T) {
	x := open(t, filepath.Join(t.TempDir(), "i"), bleveindex.Options{})
	node := doc(4, "acme", "b", "word")
	node.Kind, node.Role, node.Depth = api.KindSummary, "", 1
	file := doc(3, "acme", "b", "word")
	file.Kind, file.Part = api.KindFile, 2
	tool := doc(5, "acme", "a", "word")
	tool.Role = "tool"
	must(t, x.Apply([]bleveindex.Doc{
		doc(1, "acme", "a", "word"), doc(2, "other", "a", "word"), doc(3, "acme", "b", "word"), file, node, tool,
		doc(6, "acme", "A", "word"), // names are not folded
	}, 6))
	for name, c := range map[string]struct {
		q    bleveindex.Query
		want []uint64
	}{
		"tenant":   {bleveindex.Query{}, []uint64{6, 5, 4, 3, 3, 1}},
		"session":  {bleveindex.Query{Sessions: []string{"a"}}, []uint64{5, 1}},
		"sessions": {bleveindex.Query{Sessions: []string{"a", "b"}}, []uint64{5, 4, 3, 3, 1}},
		"role":     {bleveindex.Query{Roles: []string{"tool"}}, []uint64{5}},
		"kind":     {bleveindex.Query{Kinds: []string{api.KindFile}}, []uint64{3}},
		"kinds":    {bleveindex.Query{Kinds: []string{api.KindFile, api.KindSummary}}, []uint64{4, 3}},
		"depth":    {bleveindex.Query{Depths: []int{1}}, []uint64{4}},
		"since":    {bleveindex.Query{Since: day.Add(5 * time.Hour)}, []uint64{6, 5}},
		"until":    {bleveindex.Query{Until: day.Add(1 * time.Hour)}, []uint64{1}},
		"window":   {bleveindex.Query{Since: day.Add(3 * time.Hour), Until: day.Add(4 * time.Hour)}, []uint64{4, 3, 3}},
	} {
		c.q.Text, c.q.Tenant, c.q.Limit = "word", "acme", 10
		h, err := x.Search(context.Background(), c.q)
		must(t, err)
		if got := seqs(h); !slices.Equal(got, c.want) || h.Total != uint64(len(c.want)) {
			t.Errorf("%s: %v of %d, want %v", name, got, h.Total, c.want)
		}
	}
}

func TestPaging(t *testing.T) {
	x := open(t, filepath.Join(t.TempDir(), "i"), bleveindex.Options{})
	var docs []bleveindex.Doc
	for n := uint64(1); n <= 50; n++ {
		text := "common"
		for range n % 7 {
			text += " common filler"
		}
		docs = append(docs, doc(n, "acme", "a", text))
	}
	must(t, x.Apply(docs, 50))
	var got []uint64
	for q := (bleveindex.Query{Text: "common", Tenant: "acme", Limit: 7}); ; {
		h, err := x.Search(context.Background(), q)
		must(t, err)
		if len(h.Hits) == 0 {
			break
		}
		got = append(got, seqs(h)...)
		q.After = h.Hits[len(h.Hits)-1].ID
	}
	if len(got) != 50 || !slices.IsSortedFunc(got, func(a, b uint64) int { return int(b) - int(a) }) {
		t.Errorf("pages hold %d of 50: %v", len(got), got)
	}
}

func TestCheckpointSurvives(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "i")
	x := open(t, dir, bleveindex.Options{Epoch: "E1"})
	must(t, x.Apply([]bleveindex.Doc{doc(1, "acme", "a", "one")}, 3))
	must(t, x.Apply([]bleveindex.Doc{doc(1, "acme", "a", "one")}, 9)) // again: replaces
	if err := x.Apply(nil, 2); err == nil {
		t.Error("the position went back")
	}
	must(t, x.Close())
	x = open(t, dir, bleveindex.Options{Epoch: "ignored", Verify: true})
	if upto, epoch := x.Checkpoint(); upto != 9 || epoch != "E1" {
		t.Errorf("checkpoint %d of %s", upto, epoch)
	}
	if n, err := x.Docs(); n != 1 || err != nil {
		t.Errorf("%d documents, %v", n, err)
	}
	if x.SizeBytes() == 0 {
		t.Error("no size")
	}
}

func written(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "i")
	x, err := bleveindex.Open(dir, bleveindex.Options{Epoch: "E1"})
	must(t, err)
	var docs []bleveindex.Doc
	for n := uint64(1); n <= 300; n++ {
		docs = append(docs, doc(n, "acme", "a", fmt.Sprintf("text number %d of many words in a segment", n)))
	}
	must(t, x.Apply(docs, 300))
	must(t, x.Close())
	return dir
}

func segments(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "store", "*.zap"))
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no segments")
	}
	return files
}

func TestFlippedByteInASegment(t *testing.T) {
	dir := written(t)
	file := segments(t, dir)[0]
	raw, err := os.ReadFile(file)
	must(t, err)
	raw[len(raw)/3] ^= 0x10
	must(t, os.WriteFile(file, raw, 0o600))
	if x, err := bleveindex.Open(dir, bleveindex.Options{}); err == nil {
		if err := x.Verify(); !errors.Is(err, bleveindex.ErrDamaged) || !problem.IsCode(err, problem.Damaged) {
			t.Errorf("Verify = %v", err)
		}
		must(t, x.Close())
	} else if !errors.Is(err, bleveindex.ErrDamaged) {
		t.Errorf("Open = %v", err)
	}
	if x, err := bleveindex.Open(dir, bleveindex.Options{Verify: true}); !errors.Is(err, bleveindex.ErrDamaged) {
		t.Errorf("Open with Verify = %v", err)
		_ = x.Close()
	}
}

func TestDamagedDirectories(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, dir string){
		"cut segment": func(t *testing.T, dir string) { must(t, os.Truncate(segments(t, dir)[0], 100)) },
		"empty segment": func(t *testing.T, dir string) {
			must(t, os.Truncate(segments(t, dir)[0], 0))
		},
		"no segment": func(t *testing.T, dir string) { must(t, os.Remove(segments(t, dir)[0])) },
		"no root":    func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "store", "root.bolt"))) },
		"no meta":    func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "index_meta.json"))) },
		"no store":   func(t *testing.T, dir string) { must(t, os.RemoveAll(filepath.Join(dir, "store"))) },
		"garbage meta": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "index_meta.json"), []byte("{"), 0o600))
		},
		"zeroed root": func(t *testing.T, dir string) {
			path := filepath.Join(dir, "store", "root.bolt")
			raw, err := os.ReadFile(path)
			must(t, err)
			clear(raw[2*os.Getpagesize():])
			must(t, os.WriteFile(path, raw, 0o600))
		},
		"empty directory": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(dir))
			must(t, os.Mkdir(dir, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t)
			do(t, dir)
			x, err := bleveindex.Open(dir, bleveindex.Options{Epoch: "E1", Verify: true})
			if err == nil { // Bleve fell back on an older state: position and documents both
				upto, _ := x.Checkpoint()
				n, err := x.Docs()
				if upto != 0 || n != 0 || err != nil {
					t.Errorf("opens at %d with %d documents, %v", upto, n, err)
				}
				must(t, x.Close())
			} else if !errors.Is(err, bleveindex.ErrDamaged) {
				t.Fatalf("Open = %v", err)
			}
			y, err := bleveindex.Files{Dir: dir}.Create("E2")
			must(t, err)
			defer func() { _ = y.Close() }()
			if upto, epoch := y.Checkpoint(); upto != 0 || epoch != "E2" {
				t.Errorf("new index: %d of %s", upto, epoch)
			}
			must(t, y.Apply([]bleveindex.Doc{doc(1, "acme", "a", "one")}, 1))
		})
	}
}

func TestSecondOwnerIsRefused(t *testing.T) {
	dir := written(t)
	_ = open(t, dir, bleveindex.Options{})
	if _, err := bleveindex.Open(dir, bleveindex.Options{LockTimeout: 50 * time.Millisecond}); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("second owner: %v", err)
	}
}

func TestDirectoryRemovedWhileOpen(t *testing.T) {
	dir := written(t)
	x := open(t, dir, bleveindex.Options{})
	must(t, os.RemoveAll(dir))
	var err error
	for n := uint64(301); n < 400 && err == nil; n++ {
		err = x.Apply([]bleveindex.Doc{doc(n, "acme", "a", "one")}, n)
	}
	if !errors.Is(err, bleveindex.ErrDamaged) {
		t.Errorf("writing into a removed directory: %v", err)
	}
}

func TestDeadline(t *testing.T) {
	x := indexed(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := x.Search(ctx, bleveindex.Query{Text: "the", Tenant: "acme", Limit: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("Search after the deadline = %v", err)
	}
}

func BenchmarkApply(b *testing.B) {
	x := open(b, filepath.Join(b.TempDir(), "i"), bleveindex.Options{})
	seq := uint64(0)
	start := time.Now()
	for b.Loop() {
		var docs []bleveindex.Doc
		for range 1000 {
			seq++
			docs = append(docs, doc(seq, "acme", "a", fmt.Sprintf("%s %s number %d", corpus[seq%31+1], corpus[seq*7%31+1], seq)))
		}
		must(b, x.Apply(docs, seq))
	}
	b.ReportMetric(float64(seq)/time.Since(start).Seconds(), "docs/s")
}
