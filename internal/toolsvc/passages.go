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
	passageTokens    = 800
	maxPassageTokens = 2000
	// onePassage is the most one turn takes of an answer.
	onePassage = 200
	// passageFrame is what a passage costs beside its text: names, time, JSON.
	passageFrame = 60
)

// Query answers a question with the passages of the caller's sessions that fit
// it best, word for word. No model is asked: what comes back was said.
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
	found, err := s.Grep(ctx, api.GrepIn{
		Scope: in.Scope, Pattern: in.Prompt, Mode: "relevance", Sessions: in.Sessions, Node: in.Node,
		Kinds: []string{api.KindTurn}, Limit: 100,
	})
	if err != nil {
		return nil, err
	}
	out := &api.QueryOut{Passages: []api.Passage{}, Token: cmp.Or(token, found.Watermark).String()}
	short := func(why string) { out.Truncated, out.Why = true, cmp.Or(out.Why, why) }
	if len(found.NotSearched) > 0 {
		short(found.NotSearched[0])
	}
	used := 0
	for _, h := range found.Hits {
		turn, err := s.passage(ctx, events.Ref{Tenant: ref.Tenant, Session: h.Session}, h, token)
		if err != nil {
			return nil, err
		}
		if turn == nil {
			continue
		}
		if out.Explored+turn.Tokens > explore {
			short(fmt.Sprintf("reading more than %d tokens: explore_tokens", explore))
			continue // a smaller one may fit
		}
		out.Explored += turn.Tokens
		p := api.Passage{Session: h.Session, Entry: turn.Entry, Role: turn.Role, Time: turn.Time}
		room := min(onePassage, most-used-passageFrame)
		if p.Text, p.Clipped = around(turn.Text, h.Snippet, room); p.Text == "" {
			short(fmt.Sprintf("answering with more than %d tokens: max_tokens", most))
			break
		}
		used += passageFrame + tokens.Count(p.Text)
		out.Passages = append(out.Passages, p)
	}
	if found.Cursor != "" {
		short("more than 100 turns were found")
	}
	return out, nil
}

func queryBudgets(in api.QueryIn) (explore, answer int, err error) {
	explore, answer = cmp.Or(in.ExploreTokens, exploreTokens), cmp.Or(in.MaxTokens, passageTokens)
	switch {
	case strings.TrimSpace(in.Prompt) == "":
		return 0, 0, problem.New(problem.Invalid, "the question is empty")
	case explore < 1 || explore > maxExploreTokens:
		return 0, 0, problem.New(problem.Invalid, "explore_tokens is %d: 1 to %d", explore, maxExploreTokens)
	case answer < 100 || answer > maxPassageTokens:
		return 0, 0, problem.New(problem.Invalid, "max_tokens is %d: 100 to %d", answer, maxPassageTokens)
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
