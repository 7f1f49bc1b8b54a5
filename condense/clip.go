package condense

import (
	"fmt"
	"slices"

	"lcm/tokens"
)

// minLineShare: a clipped line keeps at least so many tokens; where not even
// that fits, lines in the middle are left out.
const minLineShare = 24

// clipLines makes lines fit max tokens: the largest lose their middle, with a
// marker naming the entry. The lines given are not changed.
func clipLines(lines []Line, max int) []Line {
	sizes := make([]int, len(lines))
	total := 0
	for i, l := range lines {
		sizes[i] = tokens.Count(l.Text)
		total += sizes[i] + lineOverhead
	}
	if total <= max {
		return lines
	}
	share := tokens.FairShare(sizes, max-len(lines)*lineOverhead)
	if share < minLineShare && len(lines) > 1 {
		return clipLines(withoutMiddle(lines, max/(minLineShare+lineOverhead)), max)
	}
	out := slices.Clone(lines)
	for i := range out {
		if sizes[i] > share {
			marker := fmt.Sprintf("\n[… %d tokens of %s left out …]\n", sizes[i]-share, out[i].Ref)
			out[i].Text = tokens.HeadTail(out[i].Text, share, marker)
		}
	}
	return out
}

// withoutMiddle keeps about n lines, fewer than there are: as many at each end,
// and between them one that says what was left out.
func withoutMiddle(lines []Line, n int) []Line {
	n = (min(n, len(lines)-1) - 1) / 2 // at each end
	if n < 1 {
		return lines[:1]
	}
	a, b := lines[n], lines[len(lines)-n-1]
	gap := Line{Ref: a.Ref, Role: a.Role, Time: a.Time, Injected: true, Text: fmt.Sprintf("[… %d lines, %s to %s, left out …]", len(lines)-2*n, a.Ref, b.Ref)}
	return slices.Concat(lines[:n], []Line{gap}, lines[len(lines)-n:])
}
