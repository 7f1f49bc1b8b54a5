package projector

import (
	"context"
	"fmt"
	"slices"

	"lcm/internal/api"
)

// beside adds the turns before and after a turn that was found: those of the
// current path, or, beside a removed one, whatever stands there.
func (g *grep) beside(ctx context.Context, tx api.StoreTx, f *found) (err error) {
	if g.q.Neighbours == 0 || f.node {
		return nil
	}
	if f.hit.Before, err = g.walk(ctx, tx, f, false); err != nil {
		return err
	}
	slices.Reverse(f.hit.Before)
	f.hit.After, err = g.walk(ctx, tx, f, true)
	return err
}

// walk lists turns from the hit away.
func (g *grep) walk(ctx context.Context, tx api.StoreTx, f *found, forward bool) (out []api.Beside, err error) {
	sc, err := g.scopes.of(tx, f.ref)
	if err != nil {
		return nil, err
	}
	for n := f.n; len(out) < g.q.Neighbours; {
		if forward {
			n++
		} else {
			n--
		}
		if !f.hit.Removed && n != 0 && n <= sc.path.Leaf() && !sc.path.Contains(n) {
			continue // of another branch
		}
		row, err := g.turnAt(tx, f.ref, n)
		if err != nil || row == nil || !f.hit.Removed && n > sc.path.Leaf() {
			return out, err
		}
		b, err := g.turnBeside(ctx, tx, *row)
		if err != nil {
			return out, err
		}
		out = append(out, b)
	}
	return out, nil
}

func (g *grep) turnBeside(ctx context.Context, tx api.StoreTx, row api.FeedRow) (api.Beside, error) {
	src, err := readSource(tx, row)
	if err != nil {
		return api.Beside{}, err
	}
	t, err := g.s.turnOf(ctx, row.Ref, src.entry, src.body)
	if err != nil {
		return api.Beside{}, err
	}
	out := api.Beside{Entry: fmt.Sprintf("e%d", row.N), Role: string(src.entry.Role)}
	out.Text, _ = snippet(t.DerivedText(), nil)
	return out, nil
}
