package projector

import (
	"fmt"
	"slices"
	"sync"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// scopes caches what filtering needs of each session.
type scopes struct {
	q    *query
	only map[string]bool // sessions, nil = all of the tenant
	mu   sync.Mutex
	seen map[events.Ref]*scope
}

// scope of one session: its path, and the entries inside the wanted node.
type scope struct {
	path     session.Path
	frontier []session.Node // of the active cut
	inside   session.Path   // nil = everywhere
}

func newScopes(q *query) *scopes {
	c := &scopes{q: q, seen: map[events.Ref]*scope{}}
	if len(q.Sessions) > 0 {
		c.only = map[string]bool{}
		for _, name := range q.Sessions {
			c.only[name] = true
		}
	}
	return c
}

// wants reports whether a session is searched at all.
func (c *scopes) wants(ref events.Ref) bool {
	return ref.Tenant == c.q.Tenant && (c.only == nil || c.only[ref.Session])
}

func (c *scopes) of(tx api.StoreTx, ref events.Ref) (*scope, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sc, ok := c.seen[ref]; ok {
		return sc, nil
	}
	rows, err := tx.Rows(ref)
	if err != nil {
		return nil, err
	}
	r := session.NewReader(rows)
	st, err := r.Now()
	if err != nil {
		return nil, err
	}
	sc := &scope{path: st.Path}
	if st.Cut != nil {
		for _, n := range st.Cut.Nodes {
			d, err := r.Node(n)
			if err != nil {
				return nil, err
			}
			sc.frontier = append(sc.frontier, d)
		}
	}
	if n := c.q.Node; n != 0 {
		h, err := r.Head()
		if err != nil {
			return nil, err
		}
		if n > h.Nodes {
			return nil, problem.New(problem.NotFound, "session %s has no node #%d: it has %d", ref, n, h.Nodes)
		}
		d, err := r.Node(n)
		if err != nil {
			return nil, err
		}
		sc.inside = d.Covered
	}
	c.seen[ref] = sc
	return sc, nil
}

// admits filters a row before anything is read of it but its place.
func (c *scopes) admits(tx api.StoreTx, row api.FeedRow) (removed, ok bool, err error) {
	if !c.wants(row.Ref) {
		return false, false, nil
	}
	sc, err := c.of(tx, row.Ref)
	if err != nil {
		return false, false, err
	}
	if row.Kind == session.RowEntry {
		removed = !sc.path.Contains(row.N)
		ok = sc.inside == nil || sc.inside.Contains(row.N)
		return removed, ok && (!removed || c.q.IncludeRemoved), nil
	}
	rows, err := tx.Rows(row.Ref)
	if err != nil {
		return false, false, err
	}
	r := session.NewReader(rows)
	d, err := r.Node(row.N)
	if err != nil {
		return false, false, err
	}
	by, err := r.SupersededBy(row.N)
	if err != nil {
		return false, false, err
	}
	removed = by != 0 || !sc.path.Covers(d.Covered)
	ok = sc.inside == nil || sc.inside.Covers(d.Covered)
	return removed, ok && (!removed || c.q.IncludeRemoved), nil
}

// passes filters by what the row says. The index has done so already, the
// scan has not.
func (q *query) passes(src source, kind string) bool {
	if !slices.Contains(q.kinds, kind) {
		return false
	}
	depth, role, when := api.NoDepth, "", src.node.Time
	if kind == api.KindSummary {
		depth = src.node.Depth
	} else {
		role, when = string(src.entry.Role), src.entry.When()
	}
	switch {
	case len(q.Roles) > 0 && !slices.Contains(q.Roles, role),
		len(q.Depths) > 0 && !slices.Contains(q.Depths, depth),
		!q.since.IsZero() && when.Before(q.since),
		!q.until.IsZero() && when.After(q.until):
		return false
	}
	return true
}

// cover names the node a hit stands under: the one of the active cut, else the
// leaf, else the node made of it.
func (g *grep) cover(tx api.StoreTx, f *found) error {
	sc, err := g.scopes.of(tx, f.ref)
	if err != nil {
		return err
	}
	rows, err := tx.Rows(f.ref)
	if err != nil {
		return err
	}
	r := session.NewReader(rows)
	var covered session.Path
	if f.node {
		d, err := r.Node(f.n)
		if err != nil {
			return err
		}
		covered = d.Covered
	} else {
		covered = session.Path{{First: f.n, Last: f.n}}
	}
	for _, d := range sc.frontier {
		if f.node && d.N == f.n {
			return nil // shown itself
		}
		if session.Path(d.Covered).Covers(covered) {
			f.hit.CoveredBy = nodeName(d.N)
			return nil
		}
	}
	above, err := r.Parents(f.n)
	if !f.node {
		above, err = r.Covering(f.n)
	}
	if err != nil {
		return err
	}
	for _, n := range slices.Backward(above) {
		d, err := r.Node(n)
		if err != nil {
			return err
		}
		by, err := r.SupersededBy(n)
		if err != nil {
			return err
		}
		if by == 0 && (f.hit.Removed || sc.path.Covers(d.Covered)) {
			f.hit.CoveredBy = nodeName(n)
			return nil
		}
	}
	return nil
}

func nodeName(n uint64) string { return fmt.Sprintf("#%d", n) }
