package tokens

import (
	"slices"
	"strings"
)

// HeadTail cuts a text to max tokens: two thirds from its head, the rest from
// its tail, a marker between. Characters stay whole. Where there is no room for
// a marker it is Head.
func HeadTail(s string, max int, marker string) string {
	if Count(s) <= max {
		return s
	}
	for room := max - Count(marker); room > 0; room -= 1 + room/16 {
		tail := room / 3
		head := strings.TrimRight(Head(s, room-tail), " \n")
		out := head + marker + strings.TrimLeft(Tail(s, tail), " \n")
		if Count(out) <= max {
			return out
		}
	}
	return Head(s, max)
}

// FairShare is the greatest size at which the sum of all sizes, each cut to it,
// is at most room: the small ones stay whole, the large ones give. Where all fit
// it is at least the largest.
func FairShare(sizes []int, room int) int {
	sorted := slices.Sorted(slices.Values(sizes))
	for i, n := range sorted {
		left := len(sorted) - i
		if n*left > room {
			return max(room, 0) / left
		}
		room -= n
	}
	if len(sorted) > 0 {
		room += sorted[len(sorted)-1]
	}
	return room
}
