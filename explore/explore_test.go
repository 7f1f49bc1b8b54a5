package explore

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite golden files")

func samples(t testing.TB) map[string][]byte {
	paths, err := filepath.Glob(filepath.Join("testdata", "samples", "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	out := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(p)] = b
	}
	return out
}

// TestGolden: a sample of each family, as it would be described.
func TestGolden(t *testing.T) {
	for name, body := range samples(t) {
		// Samples that the toolchain would take for its own end in ".txt".
		hint := "src/" + strings.TrimSuffix(strings.TrimSuffix(name, ".txt"), ".sample")
		d := Describe(hint, body)
		got := fmt.Sprintf("kind: %s\nsummary: %s\nhead:\n%s", d.Kind, d.Summary, d.Head)
		path := filepath.Join("testdata", "golden", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestKinds: the body decides, with a helpful name, without one, and with a
// misleading one.
func TestKinds(t *testing.T) {
	want := map[string]string{
		"store.go.txt": "go", "numbered.go.txt": "go", "many.go.txt": "go", "tabbed.py.txt": "python", "importer.py": "python",
		"cart.ts": "typescript", "noname": "typescript", "server.js": "javascript", "cache.rs": "rust", "OrderService.java": "java",
		"ring.c": "c", "widget.hpp": "cpp", "deploy.sh": "shell", "schema.sql": "sql", "config.json": "json", "items.json": "json",
		"cutoff.json": "json", "notjson.json": "javascript", "events.jsonl": "jsonl", "invoices.csv": "csv", "genes.tsv": "tsv",
		"compose.yaml": "yaml", "pyproject.toml": "toml", "feed.xml": "xml", "index.html": "html", "GUIDE.md": "markdown",
		"app.log": "log", "letter.txt": "text", "minutes.txt": "text", "logo.png": "binary", "blob.bin": "binary",
	}
	// These are told by their names, or by nothing.
	named := map[string]string{
		"licensed.yaml": "yaml", "list.yaml": "yaml", "chart.yaml": "yaml", "ring_jni.h": "c", "sums.csv": "csv", "history.log": "log",
		"shop.conf": "text", "fix.patch": "text", "page.php": "text", "tsconfig.json": "json", "guide.rst": "text",
		"settings": "text", "rotate.pl": "text",
	}
	bodies := samples(t)
	for name, kind := range named {
		if got := Describe("/src/"+name, bodies[name]); got.Kind != kind {
			t.Errorf("%s is %q, want %q: %s", name, got.Kind, kind, got.Summary)
		}
		if got := Describe("result", bodies[name]); got.Kind != kind && got.Kind != "text" {
			t.Errorf("%s without a name is %q: %s", name, got.Kind, got.Summary)
		}
	}
	for name, kind := range want {
		for _, hint := range []string{strings.TrimSuffix(name, ".txt"), "file", "result.txt", "data.json", "weird.xyz"} {
			if hint == "file" && name == "genes.tsv" {
				continue // two rows without a name are not enough
			}
			if got := Describe(hint, bodies[name]); got.Kind != kind {
				t.Errorf("%s named %s is %q, want %q: %s", name, hint, got.Kind, kind, got.Summary)
			}
		}
	}
	for name := range bodies {
		if want[name] == "" && named[name] == "" {
			t.Errorf("sample %s has no expectation", name)
		}
	}
}

// TestNumbered: line numbers change nothing but the size.
func TestNumbered(t *testing.T) {
	body := samples(t)["store.go.txt"]
	plain := Describe("store.go", body)
	for _, form := range []string{"%6d→%s\n", "%d\t%s\n", "%6d\t%s\n", "%4d | %s\n"} {
		var b bytes.Buffer
		for i, line := range strings.Split(strings.TrimSuffix(string(body), "\n"), "\n") {
			fmt.Fprintf(&b, form, i+41, line)
		}
		if got := Describe("store.go", b.Bytes()); got != plain {
			t.Errorf("%q: %+v\nwant %+v", form, got, plain)
		}
	}
}

func TestNamesAreCapped(t *testing.T) {
	d := Describe("many.go", samples(t)["many.go.txt"])
	if !strings.HasSuffix(d.Summary, "more)") || strings.Count(d.Summary, "Handle") > maxNames {
		t.Errorf("summary %q", d.Summary)
	}
	long := []byte("{" + strings.Repeat(`"a`+strings.Repeat("x", 300)+`": 1, `, 1) + `"b": 2}`)
	if d := Describe("x.json", long); utf8.RuneCountInString(d.Summary) > maxSummary {
		t.Errorf("%d characters: %q", utf8.RuneCountInString(d.Summary), d.Summary)
	}
}

// TestHint: what a name tells, behind what wraps it.
func TestHint(t *testing.T) {
	for name, want := range map[string]string{
		"a/B.YAML": "yaml", `c:\src\x.py`: "python", "app.log.1": "log", "app.log.2026-03-01.gz": "", "deploy.sh.in": "shell",
		"values.yaml.tmpl": "yaml", "CMakeLists.txt": foreign, "Makefile": foreign, "/root/.bashrc": "shell", "go.mod": foreign,
		"log": "", "notes.txt": "", "x.": "", "": "", ".": "", "=": "",
	} {
		if got := hint(name); got != want {
			t.Errorf("%q tells %q, want %q", name, got, want)
		}
	}
}

func check(t interface{ Errorf(string, ...any) }, name string, body []byte) {
	d := Describe(name, body)
	if d != Describe(name, body) {
		t.Errorf("two answers for %q", body)
	}
	if n := utf8.RuneCountInString(d.Summary); n > maxSummary || n == 0 || strings.ContainsAny(d.Summary, "\n\r") || !utf8.ValidString(d.Summary) {
		t.Errorf("summary of %d characters: %q", n, d.Summary)
	}
	if n := utf8.RuneCountInString(d.Head); n > maxHead || !utf8.ValidString(d.Head) {
		t.Errorf("head of %d characters: %q", n, d.Head)
	}
	if d.Kind == "" {
		t.Errorf("no kind for %q", body)
	}
}

var names4test = []string{"a.go", "a.json", "a.jsonl", "a.csv", "a.tsv", "a.md", "a.log", "a.yaml", "a.toml", "a.sql", "a.html", "a.xml", "a.h", "a.ts", "a.rst", "a.conf", "a.py", "a.json5", "a.log.1", "a", ""}

// TestAnyCut: a sample cut anywhere, under any name, keeps to the bounds.
func TestAnyCut(t *testing.T) {
	bodies := samples(t)
	rapid.Check(t, func(t *rapid.T) {
		var all []string
		for name := range bodies {
			all = append(all, name)
		}
		body := bodies[rapid.SampledFrom(all).Draw(t, "sample")]
		from := rapid.IntRange(0, len(body)).Draw(t, "from")
		to := rapid.IntRange(from, len(body)).Draw(t, "to")
		junk := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "junk")
		check(t, rapid.SampledFrom(names4test).Draw(t, "name"), append(append([]byte{}, body[from:to]...), junk...))
	})
}

func FuzzDescribe(f *testing.F) {
	for name, body := range samples(f) {
		f.Add(name, body)
	}
	f.Fuzz(check4fuzz)
}

func check4fuzz(t *testing.T, name string, body []byte) { check(t, name, body) }

// BenchmarkDescribe runs over every family, repeated to four megabytes.
func BenchmarkDescribe(b *testing.B) {
	for name, body := range samples(b) {
		switch filepath.Ext(name) {
		case ".png", ".bin":
			continue
		case ".json": // one value: a list of the sample
			body = []byte("[" + strings.Repeat(string(body)+",", 4<<20/len(body)) + "null]")
		default:
			body = bytes.Repeat(body, 4<<20/len(body)+1)
		}
		name = strings.TrimSuffix(name, ".txt")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				Describe(name, body)
			}
		})
	}
}
