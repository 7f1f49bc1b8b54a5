package projector

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

const (
	// progressWait is how long doctor watches a lagging projection for a move.
	progressWait = 2 * time.Second
	// Faults of one check that are spelled out; more of them in a deep run.
	shownFaults     = 10
	shownFaultsDeep = 1_000
	// auditPage is how many rows or sessions one transaction checks.
	auditPage = 2_000
)

// Doctor checks everything and changes nothing, unless Repair is set: then
// what is damaged is made anew, and checked again.
func (s *Service) Doctor(ctx context.Context, q api.DoctorRequest) (*api.DoctorReply, error) {
	out := &api.DoctorReply{}
	if _, err := s.Wait(ctx, events.Position{}); err != nil {
		return out, err
	}
	d := &doctor{s: s, deep: q.Deep}
	d.run(ctx)
	if q.Repair && (d.storeBad || d.indexBad) {
		if _, err := s.Rebuild(ctx, api.RebuildRequest{Store: d.storeBad, Index: d.indexBad}); err != nil {
			return out, err
		}
		again := &doctor{s: s, deep: q.Deep}
		again.run(ctx)
		again.add("repair", nil, "made anew: "+d.repaired())
		d = again
	}
	out.OK, out.Checks = true, d.checks
	for _, c := range d.checks {
		out.OK = out.OK && c.OK
	}
	return out, ctx.Err()
}

// doctor collects checks.
type doctor struct {
	s      *Service
	deep   bool
	checks []api.Check
	losses []string // lost positions, some
	// uncovered turns of all sessions: on the path, and under no summary.
	uncovered int
	storeBad  bool
	indexBad  bool
}

func (d *doctor) repaired() string {
	var what []string
	if d.storeBad {
		what = append(what, "store")
	}
	if d.indexBad {
		what = append(what, "index")
	}
	return strings.Join(what, " and ")
}

// add records a check: faults make it fail.
func (d *doctor) add(name string, faults []string, detail string) bool {
	ok := len(faults) == 0
	if !ok {
		shown := faults[:min(len(faults), d.shown())]
		detail = strings.Join(shown, "; ") + andMore(len(faults)-len(shown))
	}
	d.checks = append(d.checks, api.Check{Name: name, OK: ok, Detail: detail})
	return ok
}

// shown is how many faults of one check are spelled out.
func (d *doctor) shown() int {
	if d.deep {
		return shownFaultsDeep
	}
	return shownFaults
}

// andMore ends a list that leaves n out.
func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("; and %d more", n)
}

func faultsOf(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

func (d *doctor) run(ctx context.Context) {
	d.log(ctx)
	if d.deep && d.s.deps.Verify != nil {
		d.events(ctx)
	}
	// A store of another schema does not open, and no check is reached.
	d.add("schema", nil, fmt.Sprintf("rows of schema %d, as this build reads and writes them", session.SchemaVersion))
	d.progress(ctx)
	d.sessions(ctx)
	if d.deep {
		d.checksums(ctx)
	}
	d.index(ctx)
	d.rejected()
	d.lost()
	d.scrub()
	d.sizes()
}

// log compares the store's position with the log, as on opening.
func (d *doctor) log(ctx context.Context) {
	var a applier
	var err error
	if a.at, err = d.s.checkpoint(); err == nil && a.at.Epoch != "" {
		err = a.belongs(ctx, d.s.deps.Log, d.s.cfg.Partitions)
	}
	d.add("log", faultsOf(err), fmt.Sprintf("epoch %s, applied position %d is in the log as it was applied", d.s.deps.Log.Epoch(), a.at.Seq))
}

// events reads the whole log, as `lcm verify` does.
func (d *doctor) events(ctx context.Context) {
	r, err := d.s.deps.Verify(ctx)
	if err != nil {
		d.add("events", faultsOf(err), "")
		return
	}
	faults := d.logFaults(r.Faults)
	if len(faults) > 0 && r.More > 0 {
		faults = append(faults, fmt.Sprintf("%d more: `lcm verify` names them", r.More))
	}
	d.add("events", faults, fmt.Sprintf("%d events up to position %d were read, %d bytes of payloads; each is whole and follows the one before", r.Events, r.Last, r.Bytes))
}

// logFaults says what a walk over the log found. A position that was lost for
// good is told elsewhere; an event that does not count and was rejected when it
// came is its publisher's fault, not the log's.
func (d *doctor) logFaults(found []api.VerifyFault) []string {
	var out []string
	for _, f := range found {
		if f.Kind == api.FaultLost || f.Kind == api.FaultBroken && d.wasRejected(f.Seq) {
			continue
		}
		out = append(out, fmt.Sprintf("position %d is %s: %s", f.Seq, f.Kind, f.Reason))
	}
	return out
}

// progress: a projection that is behind must be moving.
func (d *doctor) progress(ctx context.Context) {
	last, err := d.s.deps.Log.LastSeq(ctx)
	if err != nil {
		d.add("progress", faultsOf(err), "")
		return
	}
	var faults []string
	check := func(what string, w *watermark) uint64 {
		now := w.Seq()
		if now >= last {
			return 0
		}
		wctx, cancel := context.WithTimeout(ctx, progressWait)
		defer cancel()
		if w.Wait(wctx, now+1) != nil {
			faults = append(faults, fmt.Sprintf("%s stand still at position %d, %d behind the log", what, now, last-now))
		}
		return last - now
	}
	rows := check("the rows", d.s.applied)
	docs := check("the documents", d.s.indexed)
	d.add("progress", faults, fmt.Sprintf("log at %d, rows %d behind, documents %d behind", last, rows, docs))
}

// checksums reads every row.
func (d *doctor) checksums(ctx context.Context) {
	var faults []string
	var after []byte
	pages := 0
	for ctx.Err() == nil {
		err := d.s.look(func(tx api.StoreTx) error {
			next, bad, err := tx.VerifyRows(after, auditPage)
			for _, b := range bad {
				faults = append(faults, b+" fails its checksum")
			}
			after = next
			return err
		})
		pages++
		if err != nil {
			faults = append(faults, err.Error())
			break
		}
		if after == nil {
			break
		}
	}
	if !d.add("checksums", faults, fmt.Sprintf("every row is intact (about %d)", pages*auditPage)) {
		d.storeBad = true
	}
}

// index counts documents against the feed and, deep, reads every file.
func (d *doctor) index(ctx context.Context) {
	wctx, cancel := context.WithTimeout(ctx, progressWait)
	defer cancel()
	if d.s.indexed.demand(wctx, d.s.applied.Seq()) != nil {
		d.add("index", nil, fmt.Sprintf("at position %d of %d: counted when it has caught up", d.s.indexed.Seq(), d.s.applied.Seq()))
		return
	}
	var faults []string
	var docs, want uint64
	err := d.s.use(func(store api.Store, index api.Index) error {
		err := store.View(func(tx api.StoreTx) error {
			c, err := tx.Counts()
			want = c.Entries + c.Nodes + c.Files
			return err
		})
		if err != nil {
			return err
		}
		if docs, err = index.Docs(); err != nil {
			return err
		}
		return index.Verify()
	})
	faults = append(faults, faultsOf(err)...)
	if err == nil && docs != want && d.s.indexed.Seq() == d.s.applied.Seq() {
		faults = append(faults, fmt.Sprintf("%d documents, the rows make %d", docs, want))
	}
	if !d.add("index", faults, fmt.Sprintf("%d documents, as many as the rows make; every file is intact", docs)) {
		d.indexBad = true
	}
}

// rejected lists events that did not count. That is a fact about their
// publishers, not a fault of this store.
func (d *doctor) rejected() {
	var list []api.RejectedEvent
	var c api.Counts
	err := d.s.look(func(tx api.StoreTx) (err error) {
		if c, err = tx.Counts(); err != nil {
			return err
		}
		list, err = tx.Rejected(0, d.shown())
		return err
	})
	detail := fmt.Sprintf("%d events were rejected, %d are of a later build", c.Rejected, c.Unknown)
	for _, r := range list {
		detail += fmt.Sprintf("; position %d (%s on %s): %s", r.Seq, r.Type, r.Subject, r.Reason)
	}
	d.add("rejected", faultsOf(err), detail+andMore(int(c.Rejected)-len(list)))
}

// lost names the positions that a restore or repair could not recover. They
// are no fault of this log: nobody can mend them.
func (d *doctor) lost() {
	var c api.Counts
	err := d.s.look(func(tx api.StoreTx) (err error) {
		c, err = tx.Counts()
		return err
	})
	detail := fmt.Sprintf("%d positions were lost to damage and could not be recovered", c.Lost)
	for _, l := range d.losses {
		detail += "; " + l
	}
	if len(d.losses) > 0 {
		detail += andMore(int(c.Lost) - len(d.losses))
	}
	d.add("lost", faultsOf(err), detail)
}

// scrub tells what the background walk over the log found last.
func (d *doctor) scrub() {
	st := d.s.scrubbed()
	if st == nil {
		return
	}
	detail := "the log was not read to its end yet"
	if !st.Ended.IsZero() {
		detail = fmt.Sprintf("every position up to %d was read by %s", st.Last, st.Ended.Format(time.RFC3339))
	}
	if st.Running {
		detail += fmt.Sprintf("; it is being read, at %d of %d", st.Position, st.Last)
	}
	faults := d.logFaults(st.Faults)
	if n := int(st.Missing); n > len(faults) {
		faults = append(faults, fmt.Sprintf("%d positions are missing in all: `lcm verify` names them", n))
	}
	d.add("scrub", faults, detail)
}

func (d *doctor) wasRejected(seq uint64) bool {
	var list []api.RejectedEvent
	err := d.s.look(func(tx api.StoreTx) (err error) {
		list, err = tx.Rejected(seq-1, 1)
		return err
	})
	return err == nil && len(list) == 1 && list[0].Seq == seq
}

// noteLost spells out the first lost positions.
func (d *doctor) noteLost(ref events.Ref, r session.Reader) error {
	for before := ^uint64(0); len(d.losses) < d.shown(); {
		l, at, err := r.LostAt(before)
		if err != nil || l == nil {
			return err
		}
		text := fmt.Sprintf("position %d of session %s", l.Seq, ref)
		if l.Entry != 0 {
			text += fmt.Sprintf(", its turn e%d", l.Entry)
		}
		d.losses, before = append(d.losses, text), at-1
	}
	return nil
}

func (d *doctor) sizes() {
	var detail string
	err := d.s.use(func(store api.Store, index api.Index) error {
		detail = fmt.Sprintf("store %d bytes, index %d bytes", store.SizeBytes(), index.SizeBytes())
		return nil
	})
	d.add("sizes", faultsOf(err), detail)
}
