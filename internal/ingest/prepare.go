package ingest

import (
	"encoding/json"
	"unicode/utf8"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Prepare fills in what a turn's source does not say: Files, LargeInline,
// Tokens and InputTokens, makes the turn compact and writes its payload. path
// answers which path a tool call named, "" for none or unknown. The error is
// too_large, or says that the turn cannot be written as JSON.
func Prepare(w *api.Turn, largeFileChars int, m Measures, path func(callID string) string) error {
	m = m.withDefaults()
	t := &w.Turn
	fill(t, largeFileChars, m, path)
	made, err := events.MakeTurn(t)
	if err == nil && made.Contains(`\ufffd`) {
		// JSON has no invalid UTF-8: make the turn what its payload says, so
		// that its content hash is the one every reader of the log computes.
		var back events.TurnAppended
		if err = json.Unmarshal(made.Payload(0, 0), &back); err == nil {
			*t = back
			fill(t, largeFileChars, m, path)
			made, err = events.MakeTurn(t)
		}
	}
	if err != nil {
		return problem.New(problem.Invalid, "turn %q cannot be written as JSON: %w", t.ID, err)
	}
	w.Prepared, w.Made = true, made
	return checkSize(made.Bytes())
}

// made writes the payload of a turn that was prepared elsewhere.
func made(w *api.Turn) error {
	m, err := events.MakeTurn(&w.Turn)
	if err != nil {
		return problem.New(problem.Invalid, "turn %q cannot be written as JSON: %w", w.Turn.ID, err)
	}
	w.Made = m
	return checkSize(m.Bytes())
}

func fill(t *events.TurnAppended, largeFileChars int, m Measures, path func(string) string) {
	if len(t.Blocks) == 0 {
		t.Blocks = nil // an empty list hashes differently and is not written
	}
	t.Files, t.LargeInline = nil, false
	for i, b := range t.AllBlocks() {
		describe(t, i, b, largeFileChars, m, path)
	}
	t.Compact()
	t.Tokens = m.Tokens(t)
	t.InputTokens = m.InputTokens(t)
}

// describe makes a file of a large tool result whose call named a path.
func describe(t *events.TurnAppended, i int, b events.Block, limit int, m Measures, path func(string) string) {
	if b.Type != events.BlockToolResult && t.Role != events.RoleTool {
		return
	}
	body := b.DerivedText()
	if !longer(body, limit) {
		return
	}
	p := ""
	if b.CallID != "" {
		p = path(b.CallID)
	}
	if p == "" {
		t.LargeInline = true
		return
	}
	d := m.Describe(p, []byte(body))
	t.Files = append(t.Files, events.File{
		ID: events.HashBytes([]byte(body)), Path: p, Kind: d.Kind, Summary: d.Summary, Head: d.Head,
		Bytes: len(body), Block: i,
	})
}

// longer reports whether s has more than n characters.
func longer(s string, n int) bool {
	return len(s) > n && utf8.RuneCountInString(s) > n
}

// largeCalls lists the tool calls whose results may be files: their paths have
// to be known before the turns can be prepared.
func largeCalls(t *events.TurnAppended, limit int) []string {
	var ids []string
	for _, b := range t.Blocks {
		if b.Type == events.BlockToolResult && b.CallID != "" && longer(b.DerivedText(), limit) {
			ids = append(ids, b.CallID)
		}
	}
	return ids
}

// checkSize is the one place that knows how large an event may be.
func checkSize(payloadBytes int) error {
	if payloadBytes <= events.MaxBytes {
		return nil
	}
	return problem.New(problem.TooLarge, "takes %d bytes in the log, an event has at most %d (%d MiB)", payloadBytes, events.MaxBytes, events.MaxBytes>>20).
		WithHint("split it, or leave large media out and name where it is kept")
}
