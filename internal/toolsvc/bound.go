package toolsvc

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/tokens"
)

// Answers of a bounded size: what fits is given, and a cursor says where to go
// on. Sizes are tokens of the answer as JSON, by the counter that contexts are
// measured with.

// minAnswerTokens is the smallest bound that is kept: below it the frame of an
// answer leaves no room for what it holds.
const minAnswerTokens = 600

// place is where an answer ended: what the numbers count is the tool's.
type place [3]int

// A cursor is opaque: where to go on, and what was asked.
func newCursor(p place, ref events.Ref, query string) string {
	var b strings.Builder
	for _, n := range p {
		b.WriteString(strconv.Itoa(n) + " ")
	}
	return base64.RawURLEncoding.EncodeToString([]byte(b.String() + cursorHash(ref, query)))
}

func openCursor(c string, ref events.Ref, query string) (p place, err error) {
	if c == "" {
		return p, nil
	}
	bad := problem.New(problem.Invalid, "the cursor belongs to another question").WithHint("ask again without it")
	b, err := base64.RawURLEncoding.DecodeString(c)
	fields := strings.Fields(string(b))
	if err != nil || len(fields) != len(p)+1 || fields[len(p)] != cursorHash(ref, query) {
		return p, bad
	}
	for i := range p {
		if p[i], err = strconv.Atoi(fields[i]); err != nil || p[i] < 0 {
			return p, bad
		}
	}
	return p, nil
}

func cursorHash(ref events.Ref, query string) string {
	return events.HashBytes([]byte(ref.String() + "\x00" + query))
}

// cost of a value in an answer, tokens.
func cost(v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		return 0 // it cannot be answered either
	}
	return tokens.Count(string(b)) + 1 // the comma behind it
}

// fit is the longest beginning of a text that takes at most room tokens as a
// JSON string, and never nothing.
func fit(text string, room int) string {
	for n := room; n > 8; {
		head := tokens.Head(text, n)
		c := cost(head)
		if c <= room && head != "" {
			return head
		}
		n = min(n-1, n*room/max(c, 1))
	}
	if head := tokens.Head(text, 8); head != "" {
		return head
	}
	return text[:min(len(text), 64)]
}

// boundTurns cuts a page of turns to a size and tells where the next begins:
// the entry before it, and the bytes of its text that were given.
func boundTurns(out *api.TurnsOut, r *api.TurnsReply, at place, most int) place {
	all := out.Turns
	out.Turns = []api.TurnOut{}
	room := max(most, minAnswerTokens) - cost(out) - 64 // the cursor's
	before := at[0]
	for i, t := range all {
		t.Blocks, t.Raw = []events.Block{}, ""
		n, skip := int(r.Turns[i].Entry.N), 0
		if i == 0 {
			skip = min(at[1], len(t.Text))
		}
		whole := len(t.Text)
		t.Text = t.Text[skip:]
		if skip > 0 {
			t.Part, t.Files = part(skip, whole, whole), []events.File{}
		}
		c := cost(t)
		if c <= room {
			room -= c
			out.Turns, before = append(out.Turns, t), n
			continue
		}
		if len(out.Turns) > 0 {
			return place{before}
		}
		t.Files = []events.File{} // descriptors of what the text holds anyway
		rest := t.Text
		t.Text, t.Part = "", part(whole, whole, whole)
		t.Text = fit(rest, room-cost(t))
		upto := skip + len(t.Text)
		t.Part = part(skip, upto, whole)
		out.Turns = append(out.Turns, t)
		if upto < whole {
			return place{before, upto}
		}
		before = n
	}
	if r.Next == 0 {
		return place{}
	}
	return place{before}
}

func part(from, to, whole int) string { return fmt.Sprintf("%d-%d of %d", from, to, whole) }

// boundDescription cuts a description to a size: its text, its children, its
// files, in this order. It tells how much of each was given.
func boundDescription(out *api.DescribeOut, at place, most int) place {
	text, children, files := out.Text, out.Children, out.Files
	text = text[min(at[0], len(text)):]
	children = children[min(at[1], len(children)):]
	files = files[min(at[2], len(files)):]
	out.Text, out.Children, out.Files = "", []api.ChildOut{}, []api.FileOut{}
	if at != (place{}) {
		out.Row, out.Parents, out.Tiers = nil, []string{}, []api.TierOut{} // said on the first page
	}
	room := max(most, minAnswerTokens) - cost(out) - 64
	share := room
	if len(children)+len(files) > 0 {
		share = room / 2 // the map of what is below stands on the first page
	}
	if c := cost(text); text != "" && c <= share {
		out.Text, room = text, room-c
	} else if text != "" {
		out.Text, out.Truncated = fit(text, share), true
		room -= cost(out.Text)
	}
	for len(children) > 0 {
		c := cost(children[0])
		if c > room {
			break
		}
		out.Children, children, room = append(out.Children, children[0]), children[1:], room-c
	}
	for len(children) == 0 && len(files) > 0 {
		c := cost(files[0])
		if c > room {
			break
		}
		out.Files, files, room = append(out.Files, files[0]), files[1:], room-c
	}
	given := len(out.Text) + len(out.Children) + len(out.Files)
	if given == 0 && len(files) > 0 { // one that is larger than an answer
		f := files[0]
		f.Head, f.Summary, f.Path = "", fit(f.Summary, room/3), fit(f.Path, room/3)
		out.Files, files = append(out.Files, f), files[1:]
	}
	if !out.Truncated && len(children)+len(files) == 0 {
		return place{}
	}
	return place{at[0] + len(out.Text), at[1] + len(out.Children), at[2] + len(out.Files)}
}

// boundMessages cuts a context to a size and tells where the next page begins:
// the message, and the bytes of its text that were given. A message that is too
// large for a page comes in parts of its content: of its text, where that is
// all there is, else of the content's JSON.
func boundMessages(out *api.ContextOut, at place, most int) place {
	all := out.Messages
	out.Messages = []json.RawMessage{}
	if at != (place{}) {
		out.Pointers, out.System = []api.Pointer{}, nil // said on the first page
	}
	room := max(most, minAnswerTokens) - cost(out) - 64
	for i := min(at[0], len(all)); i < len(all); i++ {
		skip := 0
		if i == at[0] {
			skip = at[1]
		}
		if c := cost(all[i]); skip == 0 && c <= room {
			room -= c
			out.Messages = append(out.Messages, all[i])
			continue
		}
		if len(out.Messages) > 0 {
			return place{i}
		}
		role, text := contentOf(all[i])
		m := messagePart{Role: role, Part: part(len(text), len(text), len(text))}
		m.Content = fit(text[min(skip, len(text)):], room-cost(m))
		upto := min(skip, len(text)) + len(m.Content)
		m.Part = part(skip, upto, len(text))
		raw, err := json.Marshal(m)
		if err != nil {
			return place{}
		}
		out.Messages = append(out.Messages, raw)
		room -= cost(m)
		if upto < len(text) {
			return place{i, upto}
		}
	}
	return place{}
}

func contentOf(message json.RawMessage) (role, text string) {
	var m struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(message, &m) != nil {
		return "", string(message)
	}
	if json.Unmarshal(m.Content, &text) != nil {
		text = string(m.Content)
	}
	return m.Role, text
}

// messagePart is a part of a message that is too large for one answer.
type messagePart struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Part    string `json:"part"`
}
