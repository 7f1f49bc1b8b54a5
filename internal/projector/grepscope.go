package projector

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// scopes is what a search filters by, session for session.
type scopes struct {
	q     *query
	only  map[string]bool // sessions, nil = all of the tenant
	known *scopeCache

	mu     sync.Mutex
	seen   map[events.Ref]*scope
	inside session.Path // of the wanted node, read with its session
	tx     api.StoreTx  // the last one
	at     uint64       // its position
}

// scope of one session: its path, and what its context shows.
type scope struct {
	nodes    bool // it has some
	path     session.Path
	frontier []shown // of the active cut
}

// shown is a node of a context.
type shown struct {
	n       uint64
	covered session.Path
}

// scopeCache keeps scopes from one search to the next. One holds at the
// position it was read at, and as long as the bytes of the session's head are
// the same: cuts and nodes never change.
type scopeCache struct {
	mu   sync.Mutex
	seen map[events.Ref]headedScope
}

type headedScope struct {
	head []byte
	at   uint64 // the last position it was seen to hold at
	*scope
}

// maxScopes so many sessions are remembered, some 1 KB each.
const maxScopes = 4_096

// standing is the scope of a session at a position, nil where the head must be
// asked.
func (c *scopeCache) standing(ref events.Ref, at uint64) *scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.seen[ref]; h.at == at {
		return h.scope
	}
	return nil
}

// headed is the scope of a session with a head at a position.
func (c *scopeCache) headed(ref events.Ref, head []byte, at uint64) *scope {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.seen[ref]
	if !ok || !bytes.Equal(h.head, head) {
		return nil
	}
	h.at = at
	c.seen[ref] = h
	return h.scope
}

func (c *scopeCache) put(ref events.Ref, head []byte, at uint64, sc *scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) >= maxScopes {
		c.seen = map[events.Ref]headedScope{}
	}
	c.seen[ref] = headedScope{bytes.Clone(head), at, sc}
}

func newScopes(q *query, known *scopeCache) *scopes {
	c := &scopes{q: q, known: known, seen: map[events.Ref]*scope{}}
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
	if c.tx != tx {
		p, err := tx.Checkpoint()
		if err != nil {
			return nil, err
		}
		c.tx, c.at = tx, p.Seq
	}
	sc := c.known.standing(ref, c.at)
	if sc == nil || c.q.Node != 0 {
		var err error
		if sc, err = c.read(tx, ref); err != nil {
			return nil, err
		}
	}
	c.seen[ref] = sc
	return sc, nil
}

func (c *scopes) read(tx api.StoreTx, ref events.Ref) (*scope, error) {
	rows, err := tx.Rows(ref)
	if err != nil {
		return nil, err
	}
	head, err := rows.Get(session.RowHead, nil)
	if err != nil {
		return nil, err
	}
	r := session.NewReader(rows)
	sc := c.known.headed(ref, head, c.at)
	if sc == nil {
		if sc, err = readScope(r); err != nil {
			return nil, err
		}
		c.known.put(ref, head, c.at, sc)
	}
	if n := c.q.Node; n != 0 {
		c.inside, err = covered(r, ref, n)
	}
	return sc, err
}

func readScope(r session.Reader) (*scope, error) {
	st, err := r.Now()
	if err != nil {
		return nil, err
	}
	h, err := r.Head()
	if err != nil {
		return nil, err
	}
	sc := &scope{nodes: h.Nodes > 0, path: st.Path}
	if st.Cut != nil {
		for _, n := range st.Cut.Nodes {
			d, err := r.Node(n)
			if err != nil {
				return nil, err
			}
			sc.frontier = append(sc.frontier, shown{n, d.Covered})
		}
	}
	return sc, nil
}

// covered is the entries inside a node.
func covered(r session.Reader, ref events.Ref, n uint64) (session.Path, error) {
	h, err := r.Head()
	if err != nil {
		return nil, err
	}
	if n > h.Nodes {
		return nil, problem.New(problem.NotFound, "session %s has no node #%d: it has %d", ref, n, h.Nodes)
	}
	d, err := r.Node(n)
	return d.Covered, err
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
		ok = c.q.Node == 0 || c.inside.Contains(row.N)
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
	ok = c.q.Node == 0 || c.inside.Covers(d.Covered)
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
	if err != nil || !sc.nodes {
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
		if f.node && d.n == f.n {
			return nil // shown itself
		}
		if d.covered.Covers(covered) {
			f.hit.CoveredBy = nodeName(d.n)
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
