package toolsvc

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/tokens"
)

// Bounds of a question, in tokens.
const (
	exploreTokens    = 4000
	maxExploreTokens = 100_000
	answerTokens     = 800
	maxAnswerTokens  = 2000
	// onePassage is the most one turn takes of an answer.
	onePassage = 200
	// passageFrame is what a passage costs beside its text: names, time, JSON.
	passageFrame = 60
	// answerFrame is what the rest of an answer may come to hold: why it is not
	// all there was.
	answerFrame = 30
)

// Query answers a question: with a reader's answer, which cites entries, else
// with the passages of the caller's sessions that fit it best, word for word.
func (s *Service) Query(ctx context.Context, in api.QueryIn) (*api.QueryOut, error) {
	explore, most, err := queryBudgets(in)
	if err != nil {
		return nil, err
	}
	ref, token, err := s.scope(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	in.Fresh, in.Token = false, token.String() // the search sees what the reads below see
	// The search decides what the caller may ask about.
	finding, cancel := context.WithTimeout(ctx, s.c.ReadDeadline)
	defer cancel()
	found, err := s.Grep(finding, api.GrepIn{
		Scope: in.Scope, Pattern: in.Prompt, Mode: "relevance", Sessions: in.Sessions, Node: in.Node,
		Kinds: []string{api.KindTurn}, Limit: 100,
	})
	if err != nil {
		return nil, err
	}
	q := question{in: in, ref: ref, token: token, hits: found, explore: explore, most: most}
	out := &api.QueryOut{Passages: []api.Passage{}, Token: cmp.Or(token, found.Watermark).String()}
	if err := s.answer(ctx, q, out); err != nil || out.Answer != "" {
		return out, err
	}
	q.explore -= out.Explored
	reading, cancel := context.WithTimeout(ctx, s.c.ReadDeadline)
	defer cancel()
	return out, s.passages(reading, q, out)
}

// question is one in hand.
type question struct {
	in            api.QueryIn
	ref           events.Ref
	token         events.Position
	hits          *api.GrepReply
	explore, most int
}

// passages answers with what was found, within the budgets.
func (s *Service) passages(ctx context.Context, q question, out *api.QueryOut) error {
	short := func(why string) { out.Truncated, out.Why = true, cmp.Or(out.Why, why) }
	if len(q.hits.NotSearched) > 0 {
		short(q.hits.NotSearched[0])
	}
	read, used := 0, cost(out)+answerFrame
	for _, h := range q.hits.Hits {
		turn, err := s.passage(ctx, events.Ref{Tenant: q.ref.Tenant, Session: h.Session}, h, q.token)
		if err != nil {
			return err
		}
		if turn == nil {
			continue
		}
		if read+turn.Tokens > q.explore {
			short(fmt.Sprintf("reading more than %d tokens: explore_tokens", q.explore))
			continue // a smaller one may fit
		}
		read += turn.Tokens
		p := api.Passage{Session: h.Session, Entry: turn.Entry, Role: turn.Role, Time: turn.Time}
		room := min(onePassage, q.most-used-passageFrame)
		if p.Text, p.Clipped = around(turn.Text, h.Snippet, room); p.Text == "" {
			short(fmt.Sprintf("answering with more than %d tokens: max_tokens", q.most))
			break
		}
		used += passageFrame + tokens.Count(p.Text)
		out.Passages = append(out.Passages, p)
	}
	out.Explored += read
	if q.hits.Cursor != "" {
		short("more than 100 turns were found")
	}
	return nil
}

func queryBudgets(in api.QueryIn) (explore, answer int, err error) {
	explore, answer = cmp.Or(in.ExploreTokens, exploreTokens), cmp.Or(in.MaxTokens, answerTokens)
	switch {
	case strings.TrimSpace(in.Prompt) == "":
		return 0, 0, problem.New(problem.Invalid, "the question is empty")
	case explore < 1 || explore > maxExploreTokens:
		return 0, 0, problem.New(problem.Invalid, "explore_tokens is %d: 1 to %d", explore, maxExploreTokens)
	case answer < 100 || answer > maxAnswerTokens:
		return 0, 0, problem.New(problem.Invalid, "max_tokens is %d: 100 to %d", answer, maxAnswerTokens)
	}
	return explore, answer, nil
}

// passage reads the turn of a hit; nil where it is not there any more.
func (s *Service) passage(ctx context.Context, ref events.Ref, h api.Hit, token events.Position) (*api.TurnOut, error) {
	t, ok := parseLocal(h.Entry)
	if !ok || t.kind != "entry" {
		return nil, nil
	}
	r, err := s.d.Reads.Turns(ctx, api.TurnsRequest{Ref: ref, Ranges: []events.Range{{First: t.n, Last: t.n}}, Token: token})
	if err != nil || len(r.Turns) != 1 {
		return nil, err
	}
	turn, err := turnOut(r.Turns[0], false)
	return &turn, err
}

// around is the text, or the part of it that begins with what was found.
func around(text, snippet string, most int) (part string, clipped bool) {
	if most < 20 {
		return "", false
	}
	if tokens.Count(text) <= most {
		return text, false
	}
	if i := strings.Index(text, strings.Trim(snippet, "… \n")); i > 0 {
		text = text[i:]
	}
	return tokens.Head(text, most), true
}
