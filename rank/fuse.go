package rank

import (
	"cmp"
	"slices"
)

// fuseK of reciprocal rank fusion: Cormack, Clarke and Büttcher, SIGIR 2009.
const fuseK = 60

// Reciprocal is what a rank, from 0, is worth in a fusion. Only ranks of two
// indexes, or of two orders, can be added: their scores have no common scale.
func Reciprocal(rank int) float64 { return 1 / float64(fuseK+rank+1) }

// Fuse merges the order of a list with another order of the same things. Equal
// ones keep the order of the list.
func Fuse[T any](list []T, other func(a, b T) int) []T {
	places := make([]int, len(list))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int { return other(list[a], list[b]) })
	worth := make([]float64, len(list))
	for rank, i := range places {
		worth[i] = Reciprocal(i) + Reciprocal(rank)
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Or(cmp.Compare(worth[b], worth[a]), cmp.Compare(a, b)) })
	out := make([]T, len(list))
	for i, p := range places {
		out[i] = list[p]
	}
	return out
}
