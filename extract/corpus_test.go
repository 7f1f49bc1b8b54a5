package extract

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"lcm/condense"
	"lcm/tokens"
)

// shared returns the directory of published transcripts, or skips.
func shared(t testing.TB) string {
	dir := os.Getenv("LCM_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	dir = filepath.Join(dir, "transcripts")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no transcripts (%v): set LCM_SHARED to a directory that holds them", err)
	}
	return dir
}

// loadTranscript reads as much of a foreign transcript as this test needs:
// role, name and derived text of every message. (Package transcript is the
// real reader.)
func loadTranscript(t testing.TB, path string) []condense.Line {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []condense.Line
	add := func(role, name, text string, failed bool, at time.Time) {
		if strings.TrimSpace(text) == "" {
			return
		}
		lines = append(lines, condense.Line{
			Ref: "e" + strconv.Itoa(len(lines)+1), Role: role, Sender: name, Text: text, Error: failed, Time: at,
		})
	}
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var rec struct {
			Timestamp time.Time
			Message   json.RawMessage
			Messages  []json.RawMessage
			Payload   json.RawMessage
		}
		if json.Unmarshal(sc.Bytes(), &rec) != nil {
			continue
		}
		for _, m := range append(rec.Messages, rec.Message, rec.Payload) {
			loadMessage(m, rec.Timestamp, add)
		}
	}
	return lines
}

type testMessage struct {
	Role, Name, ToolName string
	IsError              bool
	Content              json.RawMessage
	ToolCalls            []struct {
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

type testBlock struct {
	Type, Text, Name string
	Input, Arguments json.RawMessage
	Content          json.RawMessage
	IsError          bool `json:"is_error"`
}

func loadMessage(raw []byte, at time.Time, add func(role, name, text string, failed bool, at time.Time)) {
	var m testMessage
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil || m.Role == "" {
		return
	}
	role := m.Role
	if role == "toolResult" {
		role = "tool"
	}
	var parts []string
	for _, b := range blocksOf(m.Content) {
		switch b.Type {
		case "text", "input_text", "output_text":
			parts = append(parts, b.Text)
		case "tool_use", "toolCall":
			in := b.Input
			if in == nil {
				in = b.Arguments
			}
			parts = append(parts, b.Name+" "+string(in))
		case "tool_result":
			var texts []string
			for _, c := range blocksOf(b.Content) {
				texts = append(texts, c.Text)
			}
			add("tool", "", strings.Join(texts, "\n"), b.IsError, at)
		}
	}
	for _, c := range m.ToolCalls {
		parts = append(parts, c.Function.Name+" "+c.Function.Arguments)
	}
	add(role, m.Name+m.ToolName, strings.Join(parts, "\n"), m.IsError, at)
}

func blocksOf(raw json.RawMessage) []testBlock {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []testBlock{{Type: "text", Text: s}}
	}
	var bs []testBlock
	_ = json.Unmarshal(raw, &bs)
	return bs
}

// testAnchors is independent of the summariser's own scanner: what a reader
// would search for.
var testAnchors = []*regexp.Regexp{
	regexp.MustCompile(`https?://[^\s"'<>)\]}\\` + "`" + `]+[\w/]`),                                          // URLs
	regexp.MustCompile(`(?:~|\.{1,2}|@[\w-]+)?(?:/[\w@.-]*\w){2,}`),                                          // rooted paths
	regexp.MustCompile(`\b[\w.-]+(?:/[\w@.-]+)*/?[\w-]+\.(?:go|py|js|jsx|ts|tsx|md|json|sh|yml|yaml|css)\b`), // files
	regexp.MustCompile(`\b[a-z]+[a-z0-9]*(?:[A-Z][a-z0-9]+)+\b`),                                             // camelCase
	regexp.MustCompile(`\b(?:[A-Z][a-z0-9]+){2,}\b`),                                                         // PascalCase
	regexp.MustCompile(`\b[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+\b`),                                         // snake_case
	regexp.MustCompile(`\b[A-Z]{1,6}-?[0-9]{2,6}\b`),                                                         // codes
	regexp.MustCompile(`\bE[A-Z]{4,9}\b`),                                                                    // errno
	regexp.MustCompile(`\b[0-9a-f]{7,40}\b`),                                                                 // hashes
	regexp.MustCompile(`\$?\b\d[\d,.]*\s?(?:ms|s|KB|MB|GB|bytes|lines|files|tests|tokens|errors|minutes|hours|days|%)`),
	regexp.MustCompile(`\$\d[\d,.]*\d|\b\d{4}-\d{2}-\d{2}\b|\bv?\d+\.\d+\.\d+\b`),
}

var testQuotes = regexp.MustCompile("\"([^\"\n]{2,80})\"|`([^`\n]{2,80})`")

func anchorSet(lines []condense.Line) map[string]bool {
	set := map[string]bool{}
	for _, l := range lines {
		for _, re := range testAnchors {
			for _, a := range re.FindAllString(l.Text, -1) {
				set[a] = true
			}
		}
		if l.Role == "user" || l.Error {
			for _, m := range testQuotes.FindAllStringSubmatch(l.Text, -1) {
				set[strings.TrimSpace(m[1]+m[2])] = true
			}
		}
	}
	return set
}

// kept counts the anchors of set that stand in s as whole names.
func kept(set map[string]bool, s string) int {
	found := anchorSet([]condense.Line{{Role: "user", Text: s}})
	n := 0
	for a := range set {
		if found[a] || strings.Contains(a, " ") && strings.Contains(s, a) {
			n++
		}
	}
	return n
}

func joined(lines []condense.Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}

// chunked cuts lines into runs of about n tokens, as leaves are.
func chunked(lines []condense.Line, n int) [][]condense.Line {
	var out [][]condense.Line
	from, sum := 0, 0
	for i, l := range lines {
		sum += tokens.Count(l.Text)
		if sum >= n {
			out = append(out, lines[from:i+1])
			from, sum = i+1, 0
		}
	}
	if sum > n/4 || len(out) == 0 {
		out = append(out, lines[from:])
	}
	return out
}

type figure struct{ total, ours, prefix, tokens, target int }

func measure(lines []condense.Line) figure {
	src := joined(lines)
	target := tokens.Count(src) / 10
	out := Summarize(condense.Request{Level: 1, Target: target, Limit: target, Lines: lines})
	set := anchorSet(lines)
	return figure{len(set), kept(set, out), kept(set, tokens.Head(src, target)), tokens.Count(out), target}
}

func (f *figure) add(g figure) {
	f.total, f.ours, f.prefix, f.tokens, f.target = f.total+g.total, f.ours+g.ours, f.prefix+g.prefix, f.tokens+g.tokens, f.target+g.target
}

// TestAnchorsAgainstPrefix: at a tenth of the source's tokens a summary keeps
// at least twice the anchors that truncation to the same tokens keeps.
func TestAnchorsAgainstPrefix(t *testing.T) {
	dir := shared(t)
	files := []string{
		"pi__before-compaction.jsonl", "claudecode__ccviewer_todo-app.jsonl", "openai__taubench_airline_gpt4o_subset.jsonl",
	}
	// A leaf's chunk is a sixteenth of the budget, from 1,500 to 8,000 tokens.
	for _, chunk := range []int{1500, 2000, 2500, 3000, 3500, 4500, 5000, 6000, 7000, 8000, 1 << 30} {
		for _, file := range files {
			lines := loadTranscript(t, filepath.Join(dir, file))
			var sum figure
			worse := 0
			for _, c := range chunked(lines, chunk) {
				f := measure(c)
				sum.add(f)
				if f.ours <= f.prefix {
					worse++
				}
				if f.tokens > f.target {
					t.Errorf("%s: %d tokens, limit %d", file, f.tokens, f.target)
				}
			}
			if sum.target == 0 {
				continue
			}
			ratio := float64(sum.ours) / float64(sum.prefix)
			t.Logf("%-46s chunk %10d: anchors %6d, prefix keeps %5d, summary %5d = %.2f×; %d of %d tokens; chunks not better %d",
				file, chunk, sum.total, sum.prefix, sum.ours, ratio, sum.tokens, sum.target, worse)
			if ratio < 2 {
				t.Errorf("%s in chunks of %d: %.2f times the prefix's anchors, want 2", file, chunk, ratio)
			}
		}
	}
}

// TestShowSummary prints one leaf when asked: LCM_SHOW=file:chunk.
func TestShowSummary(t *testing.T) {
	show := os.Getenv("LCM_SHOW")
	if show == "" {
		t.Skip("LCM_SHOW is not set")
	}
	file, n, _ := strings.Cut(show, ":")
	names, _ := filepath.Glob(filepath.Join(shared(t), file+"*"))
	sort.Strings(names)
	i, _ := strconv.Atoi(n)
	c := chunked(loadTranscript(t, names[0]), 8000)[i]
	target := 1200
	t.Logf("\n%s", Summarize(condense.Request{Level: 1, Target: target, Limit: 3 * target, Lines: c}))
}

// BenchmarkSummarize prints, beside the speed, how many anchors a summary of a
// tenth of its source keeps, and how many times as many as truncation does.
func BenchmarkSummarize(b *testing.B) {
	dir := shared(b)
	for _, file := range []string{
		"pi__before-compaction.jsonl", "claudecode__ccviewer_todo-app.jsonl", "openai__taubench_airline_gpt4o_subset.jsonl",
	} {
		lines := loadTranscript(b, filepath.Join(dir, file))
		for _, size := range []int{1500, 3000, 8000, 1 << 30} {
			chunks := chunked(lines, size)
			name := file[:strings.Index(file, "__")] + "/" + strconv.Itoa(size)
			if size > 1<<20 {
				name = file[:strings.Index(file, "__")] + "/whole"
			}
			b.Run(name, func(b *testing.B) {
				b.SetBytes(int64(inputBytes(lines)))
				for b.Loop() {
					for _, c := range chunks {
						n := inputBytes(c) / 40
						Summarize(condense.Request{Level: 1, Target: n, Limit: 3 * n, Lines: c})
					}
				}
				b.StopTimer()
				var sum figure
				for _, c := range chunks {
					sum.add(measure(c))
				}
				b.ReportMetric(float64(sum.ours)/float64(sum.prefix), "anchors/prefix")
				b.ReportMetric(100*float64(sum.ours)/float64(sum.total), "%anchors")
				b.ReportMetric(100*float64(sum.tokens)/float64(sum.target), "%target")
			})
		}
	}
}
