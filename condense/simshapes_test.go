package condense

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"lcm/events"
	"lcm/explore"
	"lcm/session"
	"lcm/transcript"
	"lcm/window"
)

// shape of a synthetic session: the next entry, without number.
type shape func(r *rand.Rand, i int) session.Entry

// lognormal sizes with the given mean: most are small, some are large.
func lognormal(r *rand.Rand, mean, sigma float64) int {
	return max(1, int(mean*math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)))
}

func sized(role events.Role, n int) session.Entry {
	return session.Entry{Role: role, Tokens: n + window.MessageTokens, InputTokens: n + lineOverhead}
}

// chatty: user and assistant in turn, about 150 tokens each.
func chatty(r *rand.Rand, i int) session.Entry {
	if i%2 == 0 {
		return sized(events.RoleUser, lognormal(r, 100, 0.8))
	}
	return sized(events.RoleAssistant, lognormal(r, 200, 0.8))
}

// calls alternates calls and results, with a word of the user's now and then.
func calls(callMean, resultMean, sigma float64) shape {
	return func(r *rand.Rand, i int) session.Entry {
		id := strconv.Itoa(i / 2)
		switch {
		case i%40 == 0:
			return sized(events.RoleUser, lognormal(r, 120, 0.8))
		case i%2 == 1:
			e := sized(events.RoleAssistant, lognormal(r, callMean, 0.7))
			e.Calls = []string{id}
			return e
		case i%40 == 39:
			return sized(events.RoleAssistant, lognormal(r, 250, 0.7))
		}
		e := sized(events.RoleTool, lognormal(r, resultMean, sigma))
		e.Results = []string{strconv.Itoa((i - 1) / 2)}
		return e
	}
}

// whole3k: every entry is a tool turn of 3k tokens, call and result in one.
func whole3k(r *rand.Rand, i int) session.Entry {
	if i%40 == 0 {
		return sized(events.RoleUser, lognormal(r, 120, 0.8))
	}
	return sized(events.RoleAssistant, lognormal(r, 3000, 0.5))
}

// huge: an agent whose tools now and then print more than a window holds; half
// of that are files, of which the summariser sees a descriptor.
func huge(r *rand.Rand, i int) session.Entry {
	e := calls(200, 1_500, 1.0)(r, i)
	if len(e.Results) == 0 || r.IntN(25) > 0 {
		return e
	}
	n := 8_000 << r.IntN(7) // up to half a million tokens
	e.Tokens, e.InputTokens = n+window.MessageTokens, n+lineOverhead
	if r.IntN(2) == 0 {
		e.InputTokens = fileHeadMax + 100
	}
	return e
}

// real are the turns of the shared transcripts, again and again, by their true
// sizes; nil where there are none.
func real(t testing.TB) shape {
	dir := os.Getenv("LCM_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	names, _ := filepath.Glob(filepath.Join(dir, "transcripts", "*.json*"))
	var turns []session.Entry
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, realTurns(t, data)...)
	}
	if len(turns) == 0 {
		return nil
	}
	return func(_ *rand.Rand, i int) session.Entry {
		e := turns[i%len(turns)]
		round := strconv.Itoa(i / len(turns))
		e.Calls, e.Results = again(e.Calls, round), again(e.Results, round)
		return e
	}
}

func again(ids []string, round string) []string {
	var out []string
	for _, id := range ids {
		out = append(out, id+"/"+round)
	}
	return out
}

func realTurns(t testing.TB, data []byte) []session.Entry {
	var out []session.Entry
	paths := map[string]string{}
	for it, err := range transcript.Parse(bytes.NewReader(data), transcript.Options{Format: transcript.Auto}) {
		if err != nil {
			t.Fatal(err)
		}
		if it.Kind != transcript.KindTurn {
			continue
		}
		withFiles(it.Turn, paths)
		out = append(out, session.Entry{
			Role: it.Turn.Role, Tokens: window.TurnTokens(it.Turn), InputTokens: InputTokens(it.Turn),
			Calls: it.Turn.Calls(), Results: it.Turn.Results(), Injected: it.Turn.Injected, MessageID: it.Turn.MessageID,
		})
	}
	return out
}

// withFiles makes files of large results whose call named a path, as ingest does.
func withFiles(turn *events.TurnAppended, paths map[string]string) {
	for i, b := range turn.AllBlocks() {
		switch b.Type {
		case events.BlockToolUse:
			var args map[string]any
			_ = json.Unmarshal([]byte(b.Input), &args)
			for _, k := range []string{"file_path", "path"} {
				if p, ok := args[k].(string); ok {
					paths[b.CallID] = p
				}
			}
		case events.BlockToolResult:
			body := b.DerivedText()
			if p := paths[b.CallID]; p != "" && len(body) > 32_000 {
				d := explore.Describe(p, []byte(body))
				turn.Files = append(turn.Files, events.File{ID: events.HashBytes([]byte(body)), Path: p, Kind: d.Kind, Summary: d.Summary, Head: d.Head, Bytes: len(body), Block: i})
			}
		}
	}
}
