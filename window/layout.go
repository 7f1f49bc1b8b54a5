package window

import (
	"fmt"
	"slices"
	"strconv"

	"lcm/events"
	"lcm/session"
)

// A piece is what one place of the context shows of one entry.
type piece struct {
	kind   pieceKind
	at     int    // index of the entry; of the call's entry for a missing result
	result int    // which of the entry's results, for pieceResult and pieceQuote
	call   string // the call's id as the context writes it
	why    string // pieceQuote: where the call is
}

type pieceKind byte

const (
	pieceMain    pieceKind = iota // all of a turn but its tool results
	pieceResult                   // a result directly behind its call
	pieceQuote                    // a result whose call is not here: quoted as text
	pieceMissing                  // stands for a result that was never recorded
	pieceGone                     // an early result that found its call after all
)

// A row is one message of the layout: the parts of one assistant message, or
// one other piece.
type row struct {
	pieces []piece
	// renamed: calls of this row that reuse an id, in order of the entries'
	// calls, "" = as it is. nil where none does.
	renamed map[int][]string // entry index → ids
}

// layout orders raw entries into messages that every provider accepts, from
// metadata alone: results directly behind their assistant message and in call
// order, what was said in between after them, a stand-in for what never came.
//
// Entries are taken in order and what stands is not touched again, with one
// exception: behind the parts of an assistant message with an open call, the
// order is provisional until its results are there or another assistant
// message closes it. Stable says how many rows (and of its last, all) no later
// entry changes.
type layout struct {
	rows   []row
	stable int
}

// openCall is a call of the step under way.
type openCall struct {
	id, shown string
	at        int // entry that makes it
	answer    *piece
}

// step is an assistant message and what belongs directly behind it.
type step struct {
	row       int // its row in the layout
	messageID string
	last      int // newest entry of it
	calls     []openCall
	open      int
	after     []piece // said while a call was open
}

// earlyResult is a quoted result whose call may still come.
type earlyResult struct {
	row int // its row
	at  int
}

type layouter struct {
	layout
	entries  []session.Entry
	answered map[string]uint64
	window   int // how many entries an early result waits for its call
	cur      *step
	used     map[string]bool // call ids the context has
	reused   map[string]int  // how often a used id came again
	closed   map[string]bool // calls that were given up
	early    map[string][]earlyResult
}

func layOut(entries []session.Entry, answered map[string]uint64, s events.Settings) layout {
	l := &layouter{
		entries: entries, answered: answered, window: s.OpenGroupEntries,
		used: map[string]bool{}, reused: map[string]int{}, closed: map[string]bool{}, early: map[string][]earlyResult{},
	}
	l.rows = make([]row, 0, len(entries))
	for i := range entries {
		if entries[i].Role == events.RoleAssistant {
			l.assistant(i)
		} else {
			l.other(i)
		}
	}
	l.finish()
	return l.layout
}

// assistant opens a step, or joins the one under way: the parts of one
// provider message, and calls made in a row before any result (parallel calls).
func (l *layouter) assistant(i int) {
	e := &l.entries[i]
	if c := l.cur; c != nil {
		adjacent := c.last == i-1
		same := e.MessageID != "" && e.MessageID == c.messageID
		if !(same && (adjacent || c.open > 0) || adjacent && c.open > 0) {
			l.close()
		}
	}
	if l.cur == nil {
		l.rows = append(l.rows, row{})
		l.cur = &step{row: len(l.rows) - 1, messageID: e.MessageID}
	}
	c := l.cur
	c.last = i
	r := &l.rows[c.row]
	r.pieces = append(r.pieces, piece{kind: pieceMain, at: i})
	for k, id := range e.Calls {
		shown := l.unique(id)
		if shown != id {
			if r.renamed == nil {
				r.renamed = map[int][]string{}
			}
			if r.renamed[i] == nil {
				r.renamed[i] = make([]string, len(e.Calls))
			}
			r.renamed[i][k] = shown
		}
		c.calls = append(c.calls, openCall{id: id, shown: shown, at: i})
		c.open++
		l.takeEarly(id, i)
	}
	if len(e.Results) > 0 {
		l.results(i)
	}
	l.flush()
}

// other places a turn that is not an assistant's: its results behind their
// calls, the rest behind the step under way.
func (l *layouter) other(i int) {
	l.results(i)
	p := piece{kind: pieceMain, at: i}
	if l.cur != nil && l.cur.open > 0 {
		l.cur.after = append(l.cur.after, p)
		return
	}
	l.flush()
	l.cur = nil
	l.add(p)
}

// results places the results an entry carries.
func (l *layouter) results(i int) {
	for k, id := range l.entries[i].Results {
		q := piece{kind: pieceQuote, at: i, result: k, call: id}
		if l.openCall(id) != nil {
			l.answer(id, q)
			continue
		}
		n, covered := l.answered[id]
		switch { // what stands in front decides first: it does not change
		case l.closed[id]:
			q.why = "answered too late"
		case l.used[id]:
			q.why = "answered before"
		case covered:
			q.why = fmt.Sprintf("covered by #%d", n)
		default:
			q.why = "not in this context"
		}
		if l.cur != nil && l.cur.open > 0 {
			l.cur.after = append(l.cur.after, q)
			continue
		}
		l.flush()
		l.cur = nil
		l.add(q)
	}
}

func (l *layouter) openCall(id string) *openCall {
	if l.cur == nil || l.cur.open == 0 {
		return nil
	}
	for k := range l.cur.calls {
		if c := &l.cur.calls[k]; c.id == id && c.answer == nil {
			return c
		}
	}
	return nil
}

// add puts a piece in a message of its own.
func (l *layouter) add(p piece) {
	if p.kind == pieceQuote {
		if _, covered := l.answered[p.call]; !covered && !l.used[p.call] {
			l.early[p.call] = append(l.early[p.call], earlyResult{row: len(l.rows), at: p.at})
		}
	}
	l.rows = append(l.rows, row{pieces: []piece{p}})
}

// takeEarly pairs the call just made with a result that came before it.
func (l *layouter) takeEarly(id string, i int) {
	for k, p := range l.cur.after {
		if p.kind == pieceQuote && p.call == id {
			l.cur.after = slices.Delete(l.cur.after, k, k+1)
			l.answer(id, p)
			return
		}
	}
	q := l.early[id]
	if len(q) == 0 {
		return
	}
	first := q[0]
	l.early[id] = q[1:]
	if i-first.at > l.window {
		return
	}
	p := &l.rows[first.row].pieces[0]
	l.answer(id, *p)
	p.kind = pieceGone
}

// answer pairs an open call of that id with a result.
func (l *layouter) answer(id string, p piece) {
	c := l.openCall(id)
	c.answer = &piece{kind: pieceResult, at: p.at, result: p.result, call: c.shown}
	l.cur.open--
}

// flush emits the results of a complete step and what was said meanwhile.
func (l *layouter) flush() {
	c := l.cur
	if c == nil || c.open > 0 {
		return
	}
	answers := 0
	for k := range c.calls {
		if a := c.calls[k].answer; a != nil {
			l.add(*a)
			answers++
		}
	}
	c.calls = nil
	for _, p := range c.after {
		l.add(p)
	}
	if answers+len(c.after) > 0 {
		l.cur = nil
	}
}

// close gives up what is still open: another message has begun.
func (l *layouter) close() {
	if l.cur == nil {
		return
	}
	for k := range l.cur.calls {
		c := &l.cur.calls[k]
		if c.answer == nil {
			c.answer = &piece{kind: pieceMissing, at: c.at, call: c.shown}
			l.closed[c.id] = true
			l.cur.open--
		}
	}
	l.flush()
	l.cur = nil
}

// finish ends the layout. A message whose calls nothing follows stays open:
// it is the last one. Otherwise providers need an answer to every call.
func (l *layouter) finish() {
	l.stable = len(l.rows)
	if c := l.cur; c != nil && c.open > 0 {
		l.stable = c.row + 1
		answered := slices.ContainsFunc(c.calls, func(c openCall) bool { return c.answer != nil })
		if answered || len(c.after) > 0 {
			l.close()
		}
	}
	for _, q := range l.early {
		for _, r := range q {
			if len(l.entries)-r.at <= l.window {
				l.stable = min(l.stable, r.row)
			}
		}
	}
}

// unique returns the id under which a call is shown: its own, or, where the
// context has that id already, one with a number.
func (l *layouter) unique(id string) string {
	shown := id
	for l.used[shown] {
		l.reused[id]++
		shown = id + "_" + strconv.Itoa(l.reused[id]+1)
	}
	l.used[shown] = true
	return shown
}
