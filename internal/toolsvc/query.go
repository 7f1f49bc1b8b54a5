package toolsvc

import (
	"context"
	"strings"

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
		row, err := s.sessionRow(ctx, ref, token)
		if err != nil {
			return nil, err
		}
		return &api.SessionsReply{Watermark: token, Sessions: []api.SessionRow{*row}}, nil
	}
	r, err := s.d.Reads.Sessions(ctx, api.SessionsRequest{
		Tenant: ref.Tenant, Prefix: in.Prefix, After: in.After, Limit: in.Limit, Token: token,
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
		Pattern: in.Pattern, Mode: "words", Sessions: in.Sessions, Roles: in.Roles, Kinds: in.Kinds, Depths: in.Depths,
		Since: in.Since, Until: in.Until, IncludeRemoved: in.IncludeRemoved, Sort: in.Sort,
		Limit: in.Limit, MaxTokens: in.MaxTokens, Cursor: in.Cursor,
	}
	switch {
	case strings.TrimSpace(in.Pattern) == "":
		return nil, problem.New(problem.Invalid, "the pattern is empty")
	case in.Regex && in.Phrase:
		return nil, problem.New(problem.Invalid, "a pattern is a regex or a phrase, not both")
	case in.Regex:
		q.Mode = "regex"
	case in.Phrase:
		q.Mode = "phrase"
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
		q.Node, q.Sessions = t.n, []string{scope.Session}
	}
	ref, token, err := s.scope(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	q.Tenant, q.Token = ref.Tenant, token
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

// Status reports health and lag.
func (s *Service) Status(ctx context.Context, in api.StatusIn) (*api.StatusReply, error) {
	if err := s.await(ctx, &in.Scope); err != nil {
		return nil, err
	}
	return s.d.Reads.Status(ctx)
}

// Doctor runs the invariant checks.
func (s *Service) Doctor(ctx context.Context, in api.DoctorIn) (*api.DoctorReply, error) {
	if err := s.await(ctx, &in.Scope); err != nil {
		return nil, err
	}
	r, err := s.d.Reads.Doctor(ctx, api.DoctorRequest{Deep: in.Deep, Repair: in.Repair})
	if err != nil {
		return nil, err
	}
	letters, err := s.d.Dead.Dead(ctx, nil, 0, 1)
	c := api.Check{Name: "dead letters", OK: err == nil && len(letters) == 0, Detail: "none"}
	switch {
	case err != nil:
		c.Detail = err.Error()
	case len(letters) > 0:
		// Refused input is kept and listable: worth a look, no damage.
		c.OK, c.Detail = true, "there are some: `lcm dead list`"
	}
	r.Checks = append(r.Checks, c)
	r.OK = r.OK && c.OK
	return r, nil
}

// Rebuild drops projections and replays the log into new ones.
func (s *Service) Rebuild(ctx context.Context, in api.RebuildIn) (*api.RebuildReply, error) {
	if err := s.await(ctx, &in.Scope); err != nil {
		return nil, err
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
