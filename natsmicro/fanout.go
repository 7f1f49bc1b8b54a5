package natsmicro

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"lcm/internal/problem"
)

// layoutTries: projectors come and go; a layout that changes under every one
// of so many tries is reported.
const layoutTries = 3

// from is the answer of one projector (or of one of its replicas).
type from[A any] struct {
	parts []int
	reply *A
	err   error
}

// fanout asks the projectors of the wanted partitions (nil = all), each once,
// all at the same time. missing are partitions nobody answers for. An error of
// a projector stands in its answer.
func fanout[A any](ctx context.Context, c *ReadsClient, verb string, request any, wanted []int) (got []from[A], missing []int, err error) {
	for try := 1; ; try++ {
		sets, missing, err := c.layout(ctx, wanted)
		if err != nil {
			return nil, nil, err
		}
		got, gone, changed := askAll[A](ctx, c, verb, request, sets)
		if !changed && len(gone) == 0 {
			return got, missing, nil
		}
		c.forget()
		if try < layoutTries {
			continue
		}
		if changed {
			return nil, nil, problem.New(problem.Unavailable, "which projector serves what keeps changing")
		}
		missing = append(missing, gone...)
		slices.Sort(missing)
		return got, missing, nil
	}
}

// askAll asks one member of each set. gone: nobody answered for them; changed:
// an answer came from a projector that serves other partitions than thought.
func askAll[A any](ctx context.Context, c *ReadsClient, verb string, request any, sets [][]int) (got []from[A], gone []int, changed bool) {
	answers := make([]from[A], len(sets))
	served := make([]string, len(sets))
	var wg sync.WaitGroup
	for i, set := range sets {
		wg.Go(func() {
			a := from[A]{parts: set, reply: new(A)}
			h, err := c.call(ctx, readSubject(set[0], verb), request, a.reply)
			a.err, served[i] = err, h.Get(headerPartitions)
			answers[i] = a
		})
	}
	wg.Wait()
	for i, a := range answers {
		switch {
		case errors.Is(a.err, errNobody):
			gone = append(gone, a.parts...)
		case served[i] != "" && served[i] != formatParts(a.parts):
			changed = true
		default:
			got = append(got, a)
		}
	}
	return got, gone, changed
}

// layout returns the sets of partitions that are served together and hold a
// wanted one, and the partitions nobody serves.
func (c *ReadsClient) layout(ctx context.Context, wanted []int) (sets [][]int, missing []int, err error) {
	c.mu.Lock()
	all := c.sets
	c.mu.Unlock()
	if all == nil {
		if all, missing, err = c.learn(ctx); err != nil {
			return nil, nil, err
		}
		if len(missing) == 0 {
			c.mu.Lock()
			c.sets = all
			c.mu.Unlock()
		}
	}
	if wanted == nil {
		return all, missing, nil
	}
	want := func(p int) bool { return slices.Contains(wanted, p) }
	for _, set := range all {
		if slices.ContainsFunc(set, want) {
			sets = append(sets, set)
		}
	}
	missing = slices.DeleteFunc(missing, func(p int) bool { return !want(p) })
	return sets, missing, nil
}

func (c *ReadsClient) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sets = nil
}

// learn asks partition by partition who serves it; a projector is asked once.
func (c *ReadsClient) learn(ctx context.Context) (sets [][]int, missing []int, err error) {
	known := make([]bool, c.partitions)
	for p := range c.partitions {
		if known[p] {
			continue
		}
		h, err := c.call(ctx, readSubject(p, verbWhere), struct{}{}, nil)
		if errors.Is(err, errNobody) {
			missing = append(missing, p)
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		set, ok := parseParts(h.Get(headerPartitions))
		if !ok || !slices.Contains(set, p) {
			return nil, nil, problem.New(problem.Internal, "the projector of partition %d says it serves %q", p, h.Get(headerPartitions))
		}
		for _, q := range set {
			if q >= c.partitions {
				return nil, nil, problem.New(problem.Invalid, "a projector serves partition %d, the log has %d", q, c.partitions)
			}
			if known[q] || slices.Contains(missing, q) {
				return nil, nil, problem.New(problem.Unavailable, "two projectors serve partition %d, beside others that they do not share", q).
					WithHint("give projectors the same partitions, or disjoint ones")
			}
			known[q] = true
		}
		sets = append(sets, set)
	}
	return sets, missing, nil
}

// everyone is fanout for reads that are of no use in part.
func everyone[A any](ctx context.Context, c *ReadsClient, verb string, request any) ([]from[A], error) {
	got, missing, err := fanout[A](ctx, c, verb, request, nil)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, missingError(missing)
	}
	return got, firstError(got)
}

func firstError[A any](got []from[A]) error {
	for _, a := range got {
		if a.err != nil {
			return a.err
		}
	}
	return nil
}

func missingError(parts []int) error {
	if len(parts) == 1 {
		return nobody(parts[0])
	}
	return problem.New(problem.Unavailable, "no projector answers for partitions %s", spans(parts)).
		WithHint("start projectors that serve them; see `lcm status`")
}

// spans writes sorted numbers as "0-3, 7".
func spans(parts []int) string {
	var out []string
	for i := 0; i < len(parts); {
		k := i
		for k+1 < len(parts) && parts[k+1] == parts[k]+1 {
			k++
		}
		s := strconv.Itoa(parts[i])
		if k > i {
			s += "-" + strconv.Itoa(parts[k])
		}
		out = append(out, s)
		i = k + 1
	}
	return strings.Join(out, ", ")
}
