package eval

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lcm/internal/api"
	"lcm/internal/node"
	"lcm/internal/problem"
)

// cutoffs of recall.
var cutoffs = []int{5, 10, 20, 50}

// Chat is a conversation with questions about it.
type Chat struct {
	Chat     json.RawMessage `json:"chat"`
	Messages []struct {
		ID      int    `json:"id"`
		Role    string `json:"role"`
		Content string `json:"content"`
		Time    string `json:"time,omitempty"` // RFC 3339
	} `json:"messages"`
	Questions []struct {
		Kind     string `json:"kind"`
		Question string `json:"question"`
		Evidence []int  `json:"evidence"` // ids of messages
	} `json:"questions"`
}

// Recall of one kind of question: the part of the evidence that is among the
// first k messages returned, averaged over questions, in per cent.
type Recall struct {
	Kind      string  `json:"kind"`
	Questions int     `json:"questions"`
	At5       float64 `json:"recall_at_5"`
	At10      float64 `json:"recall_at_10"`
	At20      float64 `json:"recall_at_20"`
	At50      float64 `json:"recall_at_50"`
}

// All is the kind of the last line.
const All = "all"

// ReadChats reads one chat a line.
func ReadChats(r io.Reader) ([]Chat, error) {
	in := bufio.NewReader(r)
	var out []Chat
	for line := 1; ; line++ {
		raw, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(raw)) > 0 {
			var c Chat
			if jerr := json.Unmarshal(raw, &c); jerr != nil {
				return nil, problem.New(problem.Invalid, "line %d is no chat: %w", line, jerr).
					WithHint("a line is {chat, messages: [{id, role, content}], questions: [{kind, question, evidence: [id, …]}]}")
			}
			out = append(out, c)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, problem.New(problem.Invalid, "%w", err)
		}
	}
	if len(out) == 0 {
		return nil, problem.New(problem.Invalid, "there is no chat in the file")
	}
	return out, nil
}

// MeasureRecall imports each chat as a session and asks its questions there by
// relevance.
func MeasureRecall(ctx context.Context, chats []Chat, o Options) ([]Recall, error) {
	ctx = api.WithCaller(ctx, api.Operator())
	var t tally
	err := withNode(ctx, o, func(ctx context.Context, n *node.Node) error {
		for i, c := range chats {
			o.say("chat %d of %d: %d messages, %d questions", i+1, len(chats), len(c.Messages), len(c.Questions))
			if err := measureChat(ctx, n, fmt.Sprintf("chat-%d", i+1), c, &t); err != nil {
				return fmt.Errorf("chat %s: %w", c.Chat, err)
			}
		}
		return nil
	})
	return t.rows(), err
}

func measureChat(ctx context.Context, n *node.Node, session string, c Chat, t *tally) error {
	if err := importChat(ctx, n, session, c); err != nil {
		return err
	}
	for _, q := range c.Questions {
		if len(q.Evidence) == 0 {
			continue
		}
		found, err := ask(ctx, n, session, q.Question, c)
		if err != nil {
			return fmt.Errorf("question %q: %w", q.Question, err)
		}
		t.add(q.Kind, q.Evidence, found)
	}
	return nil
}

func importChat(ctx context.Context, n *node.Node, session string, c Chat) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, m := range c.Messages {
		turn := map[string]string{"id": strconv.Itoa(m.ID), "role": m.Role, "content": m.Content}
		if m.Time != "" {
			turn["time"] = m.Time
		}
		if err := enc.Encode(turn); err != nil {
			return err
		}
	}
	in := api.ImportIn{Scope: api.Scope{Session: session}, File: session + ".jsonl", Format: "lcm"}
	reports, err := n.Tools().Import(ctx, in, &buf, nil)
	if err == nil && (len(reports) != 1 || reports[0].Appended != len(c.Messages)) {
		err = fmt.Errorf("import of %d messages reported %+v", len(c.Messages), reports)
	}
	return err
}

// ask returns the ids of the messages found, best first.
func ask(ctx context.Context, n *node.Node, session, question string, c Chat) ([]int, error) {
	most := cutoffs[len(cutoffs)-1]
	r, err := n.Tools().Grep(ctx, api.GrepIn{
		Scope: api.Scope{Session: session, Fresh: true}, Pattern: question, Mode: "relevance",
		Kinds: []string{api.KindTurn}, Limit: most,
	})
	if err != nil {
		return nil, err
	}
	if len(r.NotSearched) > 0 {
		return nil, problem.New(problem.Unavailable, "the search is not complete: %s", strings.Join(r.NotSearched, "; "))
	}
	var out []int
	for _, h := range r.Hits {
		e, err := strconv.Atoi(strings.TrimPrefix(h.Entry, "e"))
		if err != nil || e < 1 || e > len(c.Messages) {
			return nil, fmt.Errorf("a hit at %q of %d messages", h.Entry, len(c.Messages))
		}
		out = append(out, c.Messages[e-1].ID)
	}
	return out, nil
}

// tally sums up recall by kind.
type tally struct {
	sums   map[string][]float64
	counts map[string]int
}

func (t *tally) add(kind string, evidence, found []int) {
	if t.sums == nil {
		t.sums, t.counts = map[string][]float64{}, map[string]int{}
	}
	for _, k := range []string{kind, All} {
		if t.sums[k] == nil {
			t.sums[k] = make([]float64, len(cutoffs))
		}
		t.counts[k]++
		for i, cut := range cutoffs {
			t.sums[k][i] += recallAt(cut, evidence, found)
		}
	}
}

func recallAt(cut int, evidence, found []int) float64 {
	found = found[:min(cut, len(found))]
	n := 0
	for _, e := range evidence {
		if slices.Contains(found, e) {
			n++
		}
	}
	return float64(n) / float64(len(evidence))
}

// rows are the kinds by name, and all of them last.
func (t *tally) rows() []Recall {
	var out []Recall
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(t.counts)), func(k string) bool { return k == All })
	for _, k := range append(kinds, All) {
		n := t.counts[k]
		if n == 0 {
			continue
		}
		at := func(i int) float64 { return 100 * t.sums[k][i] / float64(n) }
		out = append(out, Recall{Kind: k, Questions: n, At5: at(0), At10: at(1), At20: at(2), At50: at(3)})
	}
	return out
}
