package tokens

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// FairShare: what is cut to the share fits, and a share one larger would not.
func TestFairShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 500), 1, 12).Draw(t, "sizes")
		room := rapid.IntRange(0, 4_000).Draw(t, "room")
		sum := func(share int) (n int) {
			for _, s := range sizes {
				n += min(s, share)
			}
			return n
		}
		share := FairShare(sizes, room)
		if sum(share) > room {
			t.Fatalf("a share of %d takes %d of %d", share, sum(share), room)
		}
		if n := sum(share + 1); n > sum(share) && n <= room {
			t.Fatalf("a share of %d would fit too", share+1)
		}
	})
}

func TestHeadTail(t *testing.T) {
	text := strings.Repeat("alpha beta gamma ", 100) + "omega"
	for _, max := range []int{0, 1, 5, 20, 100, 10_000} {
		got := HeadTail(text, max, " … ")
		if n := Count(got); n > max {
			t.Errorf("%d tokens of %d", n, max)
		}
		if max >= 20 && (!strings.HasPrefix(got, "alpha") || !strings.HasSuffix(got, "omega")) {
			t.Errorf("head and tail in %d: %q", max, got)
		}
	}
}
