package ingest

import (
	"errors"
	"maps"
	"slices"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// job is one request on its way through the committer.
type job struct {
	ref      events.Ref
	writes   []api.Write
	settings *events.Settings // of a session that does not exist yet
	set      map[string]any   // of a configure; then there are no writes
	usage    *api.Usage       // of a configure, nil = none
	models   map[string]map[string]any
	// refused are writes that failed before they came here.
	refused map[int]error
	// looked is what the projection knew when the request was sent here.
	looked *api.LookupReply
	// headless: it was not asked where the session stands.
	headless bool
	// preparedFor is the limit that prepared turns were prepared for, 0 = any.
	preparedFor int
	// limit is where results begin to be files, characters.
	limit int
	// tried are ids whose commit had an unknown outcome: found in the log
	// later, they count as this request's own, not as duplicates. Where two
	// ingestors were sent the same turn at once, both may say so.
	tried map[string]bool

	bytes   int
	outcome chan outcome // takes one
	// now are the settings in force after a configure.
	now events.Settings
	// results of staging, one for each write.
	results []result
}

// outcome is what the committer answers.
type outcome struct {
	written []api.Written
	err     error // nil, errRetry…, or final
}

// result is the fate of one write: refused, known, or part of the commit.
type result struct {
	err   error
	id    string
	entry uint64
	// seq where the write is in the log already; else event is its place in
	// the commit.
	seq       uint64
	event     int
	duplicate bool
	// named: id is this write's own, so that it is found again.
	named bool
}

// Reasons to judge a request anew. They never reach a caller.
var (
	errStale       = errors.New("the lookup is older than the lane")
	errConflict    = errors.New("another writer was first")
	errUnknown     = errors.New("the outcome is unknown")
	errUnavailable = errors.New("the log is unavailable")
)

func (j *job) answer(o outcome) { j.outcome <- o }

// ids of the turns, and of the foreign compactions, that the job names.
func (j *job) ids() (turns, compactions []string) {
	seen := map[string]bool{}
	add := func(id string) {
		if id != "" {
			seen[id] = true
		}
	}
	for _, w := range j.writes {
		add(w.MoveTo)
		add(w.AfterID)
		add(w.KeptID)
		if w.Turn != nil {
			add(w.Turn.Turn.ID)
			add(w.Turn.ParentID)
		}
		if w.Compaction != nil && w.Compaction.ID != "" {
			compactions = append(compactions, w.Compaction.ID)
		}
	}
	return slices.Sorted(maps.Keys(seen)), compactions
}

// written answers for one write.
func (r result) written(epoch string, seqs []uint64) api.Written {
	if r.err != nil {
		p := problem.From(r.err)
		return api.Written{ID: r.id, Error: p.Error(), Code: string(p.Code)}
	}
	w := api.Written{ID: r.id, Entry: r.entry, Duplicate: r.duplicate, Token: events.Position{Epoch: epoch, Seq: r.seq}}
	if r.seq == 0 {
		w.Token.Seq = seqs[r.event]
	}
	return w
}
