package projector

import (
	"strconv"
	"strings"
	"sync"

	"lcm/events"
	"lcm/session"
)

// item is a record on its way to the fold.
type item struct {
	record  events.Record
	foreign bool // of a partition that is not held here
	decoded session.Decoded
	err     error // the subject names no session of its partition
}

// decoder makes records ready for the fold. It is safe for concurrent use.
type decoder struct {
	partitions int
	held       map[int]bool // nil = all
	workers    int
}

func newDecoder(partitions int, held []int, workers int) decoder {
	d := decoder{partitions: partitions, workers: workers}
	if held != nil {
		d.held = map[int]bool{}
		for _, p := range held {
			d.held[p] = true
		}
	}
	return d
}

// minChunk: fewer records are not worth another goroutine.
const minChunk = 64

// all decodes a batch in parallel, in order.
func (d decoder) all(records []events.Record) []item {
	items := make([]item, len(records))
	chunk := max(minChunk, (len(records)+d.workers-1)/d.workers)
	var wg sync.WaitGroup
	for start := 0; start < len(records); start += chunk {
		end := min(start+chunk, len(records))
		wg.Go(func() {
			for i := start; i < end; i++ {
				items[i] = d.one(records[i])
			}
		})
	}
	wg.Wait()
	return items
}

func (d decoder) one(rec events.Record) item {
	it := item{record: rec}
	if p, ok := partitionOf(rec.Subject); ok && d.held != nil && !d.held[p] {
		it.foreign = true
		return it
	}
	if it.decoded, it.err = session.Decode(rec); it.err != nil {
		return it
	}
	if want := events.Subject(it.decoded.Lane, it.decoded.Ref, d.partitions); want != rec.Subject {
		it.err = errWrongPartition{want}
	}
	return it
}

// errWrongPartition: a session has one subject per lane.
type errWrongPartition struct{ want string }

func (e errWrongPartition) Error() string {
	return "the session's subject is " + strconv.Quote(e.want)
}

// partitionOf reads the third token without decoding the names.
func partitionOf(subject string) (int, bool) {
	rest, ok := strings.CutPrefix(subject, "lcm.")
	_, rest, ok2 := strings.Cut(rest, ".")
	part, _, ok3 := strings.Cut(rest, ".")
	if !ok || !ok2 || !ok3 {
		return 0, false
	}
	p, err := strconv.Atoi(part)
	return p, err == nil
}
