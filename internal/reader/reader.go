// Package reader answers questions from records: a model with tools of its own
// describes, opens and searches within a scope, in a context that nobody else
// sees, and gives back a short answer that cites entries.
//
// Its rules (prompt, frame, limits, citations) need no model. What the model
// may read is decided by the tools it is given, and what it says is checked by
// who asked. It must never import an engine, an adapter or a service.
package reader

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lcm/chat"
	"lcm/internal/subagent"
)

// Model answers; see package chat.
type Model interface {
	Chat(context.Context, chat.Request) (chat.Response, error)
}

// Tools are those of one reader.
type Tools interface {
	subagent.Tools
	// Left is how many tokens their answers may still hold, 0 = the next call
	// will be refused.
	Left(context.Context) int
}

// Limits of one question.
type Limits struct {
	Calls int           // to the model
	Time  time.Duration // in all
}

// DefaultLimits: a look at the map, some readings, and an answer.
func DefaultLimits() Limits { return Limits{Calls: 6, Time: 2 * time.Minute} }

// Reader is safe for concurrent use.
type Reader struct {
	model  Model
	limits Limits
}

// New makes a Reader.
func New(m Model, l Limits) *Reader { return &Reader{m, l} }

// Time a question may take.
func (r *Reader) Time() time.Duration { return r.limits.Time }

// Question to a reader.
type Question struct {
	Tenant string // who pays the model
	Prompt string
	// Scope names what may be read, as the tools take it; the prompt of the
	// model shows the first of it.
	Scope []string
	// Tokens of the answer.
	Tokens int
	Tools  Tools
}

// Answer of a reader, as the model gave it: its citations are not verified.
type Answer struct {
	Text  string
	Model string
	Calls int // to the model
	// Short says why the reader was stopped before it had read what it wanted,
	// or had said what it wanted; "" = it was not.
	Short string
}

// ErrNoAnswer: the model was asked and gave no answer that can be used.
var ErrNoAnswer = errors.New("the model gave no answer")

// lateAt is the part of the time after which the model is told to answer.
const lateAt = 3. / 4

// thinkTokens are what an answer may take beside its text, for calls and for
// the words around them.
const thinkTokens = 1024

// Read puts a question. Without an answer the error says why: ErrNoAnswer, that
// of the model, or that of ctx. The Answer tells of the calls in any case.
func (r *Reader) Read(ctx context.Context, q Question) (Answer, error) {
	began := time.Now()
	timed, cancel := context.WithTimeout(ctx, r.limits.Time)
	defer cancel()
	c := conversation{r: r, q: q, late: began.Add(time.Duration(lateAt * float64(r.limits.Time)))}
	err := subagent.Conversation{Tools: framed{q.Tools}, Begin: c.begin(timed), Ask: c.ask, Judge: c.judge}.Run(timed, chat.Request{
		Tenant: q.Tenant, System: system, MaxTokens: q.Tokens + thinkTokens,
		Messages: []chat.Message{{Role: chat.User, Text: opening(ctx, q)}},
	})
	switch {
	case ctx.Err() != nil:
		return c.out, ctx.Err()
	case timed.Err() != nil && err != nil:
		return c.out, fmt.Errorf("%w within %v", ErrNoAnswer, r.limits.Time)
	case err != nil:
		return c.out, err
	}
	return c.out, c.failed
}

// conversation is one in hand.
type conversation struct {
	r      *Reader
	q      Question
	late   time.Time
	last   bool // the model was told to answer now
	again  bool // and to name its entries
	out    Answer
	failed error
}

// begin ends the reading in time: the last call that may be made is for the
// answer.
func (c *conversation) begin(ctx context.Context) func(int, *chat.Request) bool {
	return func(call int, q *chat.Request) bool {
		if call > c.r.limits.Calls {
			c.failed = fmt.Errorf("%w within %d turns", ErrNoAnswer, c.r.limits.Calls)
			return false
		}
		why := c.stop(ctx, call)
		if why == "" || c.last {
			return true
		}
		c.last, q.Choice = true, chat.ChoiceNone
		if call > 1 {
			c.out.Short = why
			q.Messages = append(q.Messages, chat.Message{Role: chat.User, Text: answerNow})
		}
		return true
	}
}

// stop says why nothing more may be read before the answer.
func (c *conversation) stop(ctx context.Context, call int) string {
	switch {
	case call == c.r.limits.Calls:
		return fmt.Sprintf("turns: a reader is given %d", c.r.limits.Calls)
	case c.q.Tools.Left(ctx) == 0:
		return "budget: as much was read as may be"
	case time.Now().After(c.late):
		return fmt.Sprintf("time: a reader is given %v", c.r.limits.Time)
	}
	return ""
}

func (c *conversation) ask(ctx context.Context, q chat.Request) (a chat.Response, usable bool, err error) {
	c.out.Calls++
	if a, err = c.r.model.Chat(ctx, q); err != nil {
		return a, false, err
	}
	c.out.Model = a.Model
	return a, a.Stop == chat.StopEnd || a.Stop == chat.StopTools && !c.last, nil
}

func (c *conversation) judge(a chat.Response, usable bool) (again string) {
	fail := func(why string) string {
		c.failed = fmt.Errorf("%w: %s", ErrNoAnswer, why)
		return ""
	}
	text := strings.TrimSpace(a.Text)
	cut := a.Stop == chat.StopLength && len(a.Calls) == 0
	switch {
	case len(a.Calls) > 0:
		return fail("it went on calling tools")
	case !usable && !cut:
		return fail(fmt.Sprintf("it ended with the reason %q", a.Stop))
	case text == "":
		return fail("it said nothing")
	case cut:
		c.out.Short = "length: the model was cut off"
	case len(Citations(text, "")) > 0:
	case c.again:
		return fail("it names no entry for what it says")
	default:
		c.again = true
		return nameEntries
	}
	c.out.Text = text
	return ""
}
