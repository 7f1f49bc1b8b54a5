package toolsvc

import (
	"context"

	"lcm/events"
	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// granted is the grant a call is made under, nil = none.
func granted(ctx context.Context) *grant.Claims {
	c, _ := api.CallerOf(ctx)
	return c.Grant
}

// outside is the answer to whatever a grant does not hold, whether it exists
// or not.
func outside(id string) error {
	return problem.New(problem.Forbidden, "%s is not in the grant", id).WithHint("ask who gave it for another one")
}

// inGrant refuses sessions that the call's grant does not touch.
func inGrant(ctx context.Context, session string) error {
	if g := granted(ctx); g != nil && !g.Touches(session) {
		return outside("session " + session)
	}
	return nil
}

// wholeInGrant refuses sessions that are open in parts only.
func wholeInGrant(ctx context.Context, session string) error {
	if g := granted(ctx); g != nil && !g.Whole(session) {
		return outside("session " + session + " as a whole")
	}
	return nil
}

// thingInGrant refuses what lies outside the nodes of the call's grant.
func (s *Service) thingInGrant(ctx context.Context, ref events.Ref, t thing, token events.Position) error {
	g := granted(ctx)
	if g == nil || g.Whole(ref.Session) {
		return nil
	}
	switch t.kind {
	case "node":
		return s.nodeInGrant(ctx, ref, *g, t.n, token)
	case "entry":
		return s.rangesInGrant(ctx, ref, []events.Range{{First: t.n, Last: t.n}}, token)
	case "file":
		f, err := s.d.Reads.File(ctx, api.FileRequest{Ref: ref, ID: t.file, Token: token})
		if problem.IsCode(err, problem.NotFound) {
			f, err = &api.FileReply{}, nil // entry 0 is in no node: as long a way as for one that is elsewhere
		}
		if err != nil {
			return err
		}
		if s.rangesInGrant(ctx, ref, []events.Range{{First: f.Entry, Last: f.Entry}}, token) != nil {
			return outside("file:" + t.file)
		}
		return nil
	}
	return wholeInGrant(ctx, ref.Session)
}

func (s *Service) nodeInGrant(ctx context.Context, ref events.Ref, g grant.Claims, n uint64, token events.Position) error {
	for _, open := range g.NodesOf(ref.Session) {
		if open == n {
			return nil
		}
		if below, err := s.below(ctx, ref, n, open, token); err != nil {
			return err
		} else if below {
			return nil
		}
	}
	return outside(nodeID(n) + " of session " + ref.Session)
}

// below reports whether a node covers nothing that another one, not as deep,
// does not cover. What does not exist lies below nothing.
func (s *Service) below(ctx context.Context, ref events.Ref, n, of uint64, token events.Position) (bool, error) {
	r, err := s.d.Reads.Node(ctx, api.NodeRequest{Ref: ref, Numbers: []uint64{n, of}, Token: token})
	if problem.IsCode(err, problem.NotFound) {
		return false, nil
	}
	if err != nil || len(r.Nodes) != 2 {
		return false, err
	}
	a, b := r.Nodes[0].Node, r.Nodes[1].Node
	return a.Depth < b.Depth && contains(b.Covered, a.Covered), nil
}

// rangesInGrant refuses entries that no node of the grant covers.
func (s *Service) rangesInGrant(ctx context.Context, ref events.Ref, want []events.Range, token events.Position) error {
	g := granted(ctx)
	if g == nil || g.Whole(ref.Session) {
		return nil
	}
	for _, n := range g.NodesOf(ref.Session) {
		d, err := s.node(ctx, ref, n, token)
		if problem.IsCode(err, problem.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if contains(d.Node.Covered, want) {
			return nil
		}
	}
	if len(want) == 0 {
		return wholeInGrant(ctx, ref.Session)
	}
	return outside(span(want[0].First, want[len(want)-1].Last) + " of session " + ref.Session)
}

// grepInGrant keeps a search within the call's grant: in sessions that are open
// as a whole, or below one node of one that is not. A search that names nothing
// is made where the grant is.
func (s *Service) grepInGrant(ctx context.Context, q *api.GrepRequest) error {
	g := granted(ctx)
	if g == nil {
		return nil
	}
	if len(q.Sessions) == 0 {
		q.Sessions = g.Sessions
		if len(g.Sessions) == 0 && len(g.Nodes) == 1 {
			q.Sessions, q.Node = []string{g.Nodes[0].Session}, g.Nodes[0].N
		}
	}
	if len(q.Sessions) == 0 {
		return problem.New(problem.Invalid, "the grant holds several nodes: a search needs to name one of them")
	}
	for _, name := range q.Sessions {
		if g.Whole(name) {
			continue
		}
		if q.Node == 0 || !g.Touches(name) {
			return outside("session " + name + " as a whole")
		}
		if err := s.nodeInGrant(ctx, events.Ref{Tenant: q.Tenant, Session: name}, *g, q.Node, q.Token); err != nil {
			return err
		}
		if q.Neighbours > 0 {
			return problem.New(problem.Forbidden, "what stands beside a hit may not be in the grant").WithHint("leave out neighbours")
		}
	}
	return nil
}

// contains reports whether every range of part lies in one of all, and part
// holds any.
func contains(all, part []events.Range) bool {
	for _, p := range part {
		in := false
		for _, a := range all {
			in = in || a.First <= p.First && p.Last <= a.Last
		}
		if !in {
			return false
		}
	}
	return len(part) > 0
}
