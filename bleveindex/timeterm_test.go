package bleveindex

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTimeBlocks: a moment is in exactly one block of a range that holds it,
// and in none of one that does not.
func TestTimeBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	near := func(n uint64) uint64 { return n + uint64(rng.Int64N(1<<(1+rng.IntN(50)))) - 1<<20 }
	for range 20_000 {
		base := uint64(1)<<63 + uint64(rng.Int64N(1<<44))
		from, to := near(base), near(base)
		switch rng.IntN(20) {
		case 0:
			from = 0
		case 1:
			to = math.MaxUint64
		case 2:
			from = to
		}
		for _, at := range []uint64{from, to, from - 1, to + 1, near(base), near(from), near(to)} {
			held := 0
			for _, b := range timeBlocks(from, to) {
				if block := at >> timeShifts[b.level]; b.from <= block && block <= b.to {
					held++
					if !slices.Contains(timeTerms(at), timeTerm(b.level, block)) {
						t.Fatalf("%x has no term of block %x at level %d", at, block, b.level)
					}
				}
			}
			want := 0
			if from <= at && at <= to {
				want = 1
			}
			if held != want {
				t.Fatalf("%x is in %d blocks of %x to %x", at, held, from, to)
			}
		}
		if n := len(timeBlocks(from, to)); n > 2*len(timeShifts) {
			t.Fatalf("%d blocks for %x to %x", n, from, to)
		}
	}
}
