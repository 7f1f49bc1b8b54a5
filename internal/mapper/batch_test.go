package mapper_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lcm/internal/api"
	"lcm/mapjob"
)

// keyed reads the records of a batch's prompt: key → last word.
func keyed(t *testing.T, text string) (keys []string, words map[string]string) {
	t.Helper()
	words = map[string]string{}
	for line := range strings.Lines(text) {
		var r struct{ Key, Record string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		keys = append(keys, r.Key)
		words[r.Key] = r.Record[strings.LastIndexByte(r.Record, ' ')+1:]
	}
	return keys, words
}

// Rows of a batch share calls; only those whose answer was wrong are asked for
// again, each with everything that was wrong with it.
func TestBatch(t *testing.T) {
	var retries atomic.Int64
	p := newProvider(t, time.Millisecond, func(m []message) (string, string, int) {
		if !strings.Contains(m[0].Content, "a key and a record") { // a row by itself
			return echo(m)
		}
		keys, words := keyed(t, m[1].Content)
		out := map[string]any{}
		for _, k := range keys {
			out[k] = map[string]any{"label": words[k]}
		}
		again := len(m) > 2
		if again {
			retries.Add(1)
		}
		for _, k := range keys {
			switch w := words[k]; {
			case again && !strings.Contains(m[3].Content, `Key "`+k+`"`):
				t.Errorf("row %s is asked for again, and was not wrong: %s", k, m[3].Content)
			case again && strings.HasSuffix(w, "7") && (!strings.Contains(m[3].Content, "label") || !strings.Contains(m[2].Content, `"lable"`)):
				t.Errorf("the model is not told what was wrong: %s %s", m[2].Content, m[3].Content)
			case strings.HasSuffix(w, "7") && !again:
				out[k] = map[string]any{"lable": w}
			case strings.HasSuffix(w, "8") && !again:
				delete(out, k)
			case w == "13":
				out[k] = 13
			}
		}
		b, _ := json.Marshal(out)
		return string(b), "stop", 200
	})
	w := newWorld(t, p.client(t)).open()
	input := rowsOf(200) + "nonsense\n"
	job := w.begin(input, api.MapRunIn{Batch: 10, Concurrency: 4})
	out := w.end(job)
	if out.OK != 199 || out.Failed != 2 || out.Kinds[mapjob.NotJSON] != 1 || out.Kinds[mapjob.Mismatch] != 1 {
		t.Errorf("%+v", out)
	}
	for i, r := range w.output(job)[:200] {
		n := fmt.Sprint(i + 1)
		want, attempts := `{"label":"`+n+`"}`, 1
		if n[len(n)-1] == '7' || n[len(n)-1] == '8' {
			attempts = 2
		}
		if n == "13" {
			want, attempts = "", 3
		}
		if string(r.Result) != want || r.Attempts != attempts {
			t.Errorf("row %s: %+v", n, r)
		}
	}
	// Twenty batches, and one or two more calls for each with wrong answers.
	if calls := p.calls.Load(); calls > 80 || int64(out.Calls) != calls || retries.Load() == 0 || p.most.Load() > 4 {
		t.Errorf("%d calls, %d told, %d again, %d at once", calls, out.Calls, retries.Load(), p.most.Load())
	}
}

// A call for several rows that fails as a whole fails no row: each is asked
// for by itself, and the one whose fault it was fails alone.
func TestBatchThatFailsAsAWhole(t *testing.T) {
	p := newProvider(t, 0, func(m []message) (string, string, int) {
		alone := !strings.Contains(m[0].Content, "a key and a record")
		switch {
		case strings.Contains(m[1].Content, "row 3\"") || alone && strings.HasSuffix(m[1].Content, "row 3"):
			return "", "", 422
		case strings.Contains(m[1].Content, "row 25\"") || alone && strings.HasSuffix(m[1].Content, "row 25"):
			return `{"label"`, "length", 200
		case alone:
			return echo(m)
		}
		keys, words := keyed(t, m[1].Content)
		out := map[string]any{}
		for _, k := range keys {
			out[k] = map[string]any{"label": words[k]}
		}
		b, _ := json.Marshal(out)
		return string(b), "stop", 200
	})
	w := newWorld(t, p.client(t)).open()
	job := w.begin(rowsOf(40), api.MapRunIn{Batch: 10, Concurrency: 2, Attempts: 2})
	out := w.end(job)
	rows := w.output(job)
	if out.OK != 38 || rows[2].Error == nil || rows[2].Error.Kind != mapjob.Refused || rows[24].Error == nil || rows[24].Error.Kind != mapjob.CutOff {
		t.Errorf("%+v %+v %+v", out, rows[2].Error, rows[24].Error)
	}
}
