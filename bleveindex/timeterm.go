package bleveindex

import (
	"fmt"
	"math"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
)

// A time is kept as milliseconds in several precisions, so that a range is a
// few whole blocks and, at its ends, finer ones:
//
//	a<16 hex digits>   to the millisecond
//	b<13>  4 s   c<11>  17 min   d<9>  3 days   e<7>  2 years
//
// Five short terms take a fifth of what Bleve's numbers do.

// timeShifts: the bits that each precision leaves out.
var timeShifts = []uint{0, 12, 20, 28, 36}

// timeBits orders times as unsigned numbers, also those before 1970.
func timeBits(t time.Time) uint64 { return uint64(t.UnixMilli()) ^ 1<<63 }

func timeTerm(level int, block uint64) string {
	return fmt.Sprintf("%c%0*x", 'a'+level, 16-int(timeShifts[level])/4, block)
}

// timeTerms of a moment.
func timeTerms(bits uint64) []string {
	var out []string
	for level, shift := range timeShifts {
		out = append(out, timeTerm(level, bits>>shift))
	}
	return out
}

// blocks is a range of blocks of one precision, both ends in it.
type blocks struct {
	level    int
	from, to uint64
}

// timeBlocks covers a range, both ends in it, with the widest blocks.
func timeBlocks(from, to uint64) []blocks {
	var out []blocks
	for level := 0; from <= to; level++ {
		if level == len(timeShifts)-1 {
			return append(out, blocks{level, from, to})
		}
		bits := timeShifts[level+1] - timeShifts[level]
		last := uint64(1)<<bits - 1
		if from>>bits == to>>bits && (from&last != 0 || to&last != last) {
			return append(out, blocks{level, from, to})
		}
		if from&last != 0 {
			out = append(out, blocks{level, from, from | last})
			from = from>>bits + 1
		} else {
			from >>= bits
		}
		if to&last != last {
			out = append(out, blocks{level, to &^ last, to})
			if to>>bits == 0 {
				return out
			}
			to = to>>bits - 1
		} else {
			to >>= bits
		}
	}
	return out
}

// between is the documents of a time, both ends in it; zero = open.
func (g *seg) between(since, until time.Time) (*roaring.Bitmap, error) {
	if since.IsZero() && until.IsZero() {
		return nil, nil
	}
	from, to := uint64(0), uint64(math.MaxUint64)
	if !since.IsZero() {
		from = timeBits(since)
	}
	if !until.IsZero() {
		to = timeBits(until)
	}
	var terms []string
	for _, b := range timeBlocks(from, to) {
		err := g.eachTerm(fieldTime, timeTerm(b.level, b.from), timeTerm(b.level, b.to)+"\xff", func(term string) bool {
			terms = append(terms, term)
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return g.anyTerm(fieldTime, terms)
}
