package toolsvc

import (
	"context"
	"slices"
	"strings"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Sessions lists the sessions of a tenant.
func (s *Service) Sessions(ctx context.Context, in api.SessionsIn) (*api.SessionsReply, error) {
	ref, token, err := s.scope(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	if in.Session != "" {
		at, err := s.resolve(ctx, ref, in.At, token)
		if err != nil {
			return nil, err
		}
		row, err := s.sessionRowAt(ctx, ref, at, token)
		if err != nil {
			return nil, err
		}
		return &api.SessionsReply{Watermark: token, Sessions: []api.SessionRow{*row}}, nil
	}
	r, err := s.d.Reads.Sessions(ctx, api.SessionsRequest{
		Tenant: ref.Tenant, Prefix: in.Prefix, After: in.After, Limit: in.Limit, At: in.At, Token: token,
	})
	if err != nil {
		return nil, err
	}
	if r.Sessions == nil {
		r.Sessions = []api.SessionRow{}
	}
	return r, nil
}

// Grep searches turns, summaries and files.
func (s *Service) Grep(ctx context.Context, in api.GrepIn) (*api.GrepReply, error) {
	q := api.GrepRequest{
		Pattern: in.Pattern, Mode: in.Mode, IgnoreCase: in.IgnoreCase, Multiline: in.Multiline, Neighbours: in.Neighbours, Sessions: in.Sessions, Roles: in.Roles, Kinds: in.Kinds, Depths: in.Depths,
		Since: in.Since, Until: in.Until, IncludeRemoved: in.IncludeRemoved, Sort: in.Sort,
		Limit: in.Limit, MaxTokens: in.MaxTokens, Cursor: in.Cursor,
	}
	switch {
	case strings.TrimSpace(in.Pattern) == "":
		return nil, problem.New(problem.Invalid, "the pattern is empty")
	case in.Regex && in.Phrase, in.Regex && in.Mode != "" && in.Mode != "regex", in.Phrase && in.Mode != "" && in.Mode != "phrase":
		return nil, problem.New(problem.Invalid, "a search has one mode")
	case in.Regex:
		q.Mode = "regex"
	case in.Phrase:
		q.Mode = "phrase"
	}
	if err := validFilters(in); err != nil {
		return nil, err
	}
	if in.Session != "" {
		q.Sessions = append(q.Sessions, in.Session)
	}
	if in.Node != "" {
		scope := in.Scope
		t, err := parseID(&scope, in.Node)
		if err != nil {
			return nil, err
		}
		if t.kind != "node" {
			return nil, problem.New(problem.Invalid, "%q is no node", in.Node)
		}
		if slices.ContainsFunc(q.Sessions, func(name string) bool { return name != scope.Session }) {
			return nil, problem.New(problem.Invalid, "node %q is not of another session", in.Node).WithHint("leave out the session")
		}
		q.Node, q.Sessions = t.n, []string{scope.Session}
	}
	ref, token, err := s.scope(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	q.Tenant, q.Token = ref.Tenant, token
	if err := s.grepInGrant(ctx, &q); err != nil {
		return nil, err
	}
	for _, name := range q.Sessions {
		if _, err := s.sessionRow(ctx, events.Ref{Tenant: ref.Tenant, Session: name}, token); err != nil {
			return nil, err
		}
	}
	r, err := s.d.Reads.Grep(ctx, q)
	if err != nil {
		return nil, err
	}
	if r.Hits == nil {
		r.Hits = []api.Hit{}
	}
	if r.NotSearched == nil {
		r.NotSearched = []string{}
	}
	return r, nil
}

// validFilters refuses filters that nothing can pass: they would answer "no
// hits" where the question was misspelt.
func validFilters(in api.GrepIn) error {
	for _, r := range in.Roles {
		if !events.Role(r).Valid() {
			return problem.New(problem.Invalid, "role %q is none of system, developer, user, assistant, tool", r)
		}
	}
	for _, d := range in.Depths {
		if d < 0 {
			return problem.New(problem.Invalid, "depth %d: the depth of a summary is 0 or more", d)
		}
	}
	if in.Limit < 0 || in.MaxTokens < 0 {
		return problem.New(problem.Invalid, "limit and max_tokens cannot be negative")
	}
	since, err1 := time.Parse(time.RFC3339, in.Since)
	until, err2 := time.Parse(time.RFC3339, in.Until)
	if err1 == nil && err2 == nil && !since.Before(until) {
		return problem.New(problem.Invalid, "nothing lies between since %s and until %s", in.Since, in.Until)
	}
	return nil
}

// Rebuild drops projections and replays the log into new ones.
func (s *Service) Rebuild(ctx context.Context, in api.RebuildIn) (*api.RebuildReply, error) {
	if err := s.await(ctx, &in.Scope); err != nil && !problem.IsCode(err, problem.Damaged) {
		return nil, err // damage is what a rebuild mends
	}
	return s.d.Reads.Rebuild(ctx, api.RebuildRequest{Store: in.Store, Index: in.Index})
}

// await makes a caller's token visible for tools that name no session.
func (s *Service) await(ctx context.Context, in *api.Scope) error {
	_, token, err := s.scope(ctx, in)
	if err != nil || token == (events.Position{}) {
		return err
	}
	_, err = s.d.Reads.Sessions(ctx, api.SessionsRequest{Tenant: in.Tenant, Limit: 1, Token: token})
	return err
}
