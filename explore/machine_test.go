package explore

import (
	"bytes"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestMachinesFiles describes real files where there are some: a name that
// tells a family of ours gives that family, and none of another's is Markdown.
func TestMachinesFiles(t *testing.T) {
	const (
		longest   = 2500 * time.Millisecond // of reading
		most      = 150                     // files of an extension, of each place
		mostBytes = 256 << 10               // of a file
		share     = 0.98
	)
	want := map[string][]string{
		".yaml": {"yaml", "json"}, ".yml": {"yaml", "json"}, ".py": {"python"}, ".sh": {"shell"}, ".log": {"log", "jsonl"},
		".json": {"json", "jsonl"}, ".go": {"go"}, ".h": {"c", "cpp"}, ".c": {"c"}, ".md": {"markdown"}, ".xml": {"xml", "html"},
		".toml": {"toml"}, ".csv": {"csv"}, ".html": {"html", "xml"}, ".js": {"javascript"}, ".java": {"java"}, ".rs": {"rust"},
		".ts": {"typescript", "xml"}, ".sql": {"sql"},
	}
	ours := map[string]int{}
	others := map[string][]string{}
	places := []string{filepath.Join(build.Default.GOROOT, "src"), "/usr/share", "/usr/lib/python3", "/etc", "/var/log"}
	for _, place := range places {
		taken := map[string]int{}
		until := time.Now().Add(longest / time.Duration(len(places)))
		err := filepath.WalkDir(place, func(p string, d fs.DirEntry, err error) error {
			if time.Now().After(until) {
				return filepath.SkipAll
			}
			ext := strings.ToLower(filepath.Ext(p))
			if err != nil || !d.Type().IsRegular() || taken[ext] == most {
				return nil // what cannot be read is not described either
			}
			if info, err := d.Info(); err != nil || info.Size() > mostBytes {
				return nil
			}
			body, err := os.ReadFile(p)
			if err != nil || !utf8.Valid(body) || len(bytes.TrimSpace(body)) == 0 {
				return nil
			}
			taken[ext]++
			got := Describe(p, body)
			if h := hint(p); got.Kind == "markdown" && h != "" && h != "markdown" {
				t.Errorf("%s is Markdown: %s", p, got.Summary)
			}
			switch kinds := want[ext]; {
			case kinds == nil:
			case slices.Contains(kinds, got.Kind) || got.Kind == "binary":
				ours[ext]++
			default:
				others[ext] = append(others[ext], p+": "+got.Summary)
			}
			return nil
		})
		if err != nil {
			t.Log(err) // the machine has no such place
		}
	}
	for ext := range want {
		n := ours[ext] + len(others[ext])
		t.Logf("%s: %d of %d", ext, ours[ext], n)
		if float64(ours[ext]) < share*float64(n) {
			t.Errorf("of %d files %s only %d are told:\n%s", n, ext, ours[ext], strings.Join(others[ext][:min(10, len(others[ext]))], "\n"))
		}
	}
}
