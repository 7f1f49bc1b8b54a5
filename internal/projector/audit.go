package projector

import (
	"context"
	"fmt"
	"slices"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// sessions checks the structure of every session, as session.Audit knows it,
// and that the dispatcher knows of all that may be due.
func (d *doctor) sessions(ctx context.Context) {
	var faults, unowned []string
	marked := map[events.Ref]bool{}
	err := d.s.look(func(tx api.StoreTx) error {
		refs, err := tx.Hot()
		for _, ref := range refs {
			marked[ref] = true
		}
		return err
	})
	faults = append(faults, faultsOf(err)...)
	var after uint64
	n := 0
	for ctx.Err() == nil {
		var refs []events.Ref
		err := d.s.look(func(tx api.StoreTx) (err error) {
			refs, after, err = tx.EachSession(after, auditPage)
			return err
		})
		if err != nil {
			faults = append(faults, err.Error())
			break
		}
		if len(refs) == 0 {
			break
		}
		n += len(refs)
		for _, ref := range refs {
			faults = append(faults, d.session(ref)...)
			unowned = append(unowned, d.owned(ref, marked[ref])...)
			delete(marked, ref)
		}
	}
	for ref := range marked {
		unowned = append(unowned, fmt.Sprintf("session %s is marked as due and does not exist", ref))
	}
	if !d.add("sessions", faults, fmt.Sprintf("%d sessions: leaves, paths, spans, node shapes, children, coverage, references and cuts hold together; %d turns are under no summary yet", n, d.uncovered)) {
		d.storeBad = true
	}
	if !d.add("tasks", unowned, "every session over its soft threshold, and no other, is marked for the dispatcher") {
		d.storeBad = true
	}
}

// owned: a session over its soft threshold is one that the dispatcher asks
// about; without the mark its task would have no owner. marked was so when the
// check began: what differs is looked at again, the session may have moved.
func (d *doctor) owned(ref events.Ref, marked bool) []string {
	var fault []string
	err := d.s.look(func(tx api.StoreTx) error {
		rows, err := tx.Rows(ref)
		if err != nil {
			return err
		}
		h, err := session.NewReader(rows).Head()
		if err != nil || hot(h) == marked {
			return err
		}
		refs, err := tx.Hot()
		if now := slices.Contains(refs, ref); err == nil && hot(h) != now {
			fault = append(fault, fmt.Sprintf("session %s has %d tokens, and marked as due is %v", ref, h.ContextTokens, now))
		}
		return err
	})
	return append(fault, faultsOf(err)...)
}

// session audits one session, entry by entry where that is asked for. Each
// page is one state; between them the session may grow.
func (d *doctor) session(ref events.Ref) []string {
	var faults []string
	var head session.Head
	step := func(check func(session.Reader) ([]string, error)) bool {
		err := d.s.look(func(tx api.StoreTx) error {
			rows, err := tx.Rows(ref)
			if err != nil {
				return err
			}
			found, err := check(session.NewReader(rows))
			faults = append(faults, found...)
			return err
		})
		faults = append(faults, faultsOf(err)...)
		return err == nil
	}
	ok := step(func(r session.Reader) (found []string, err error) {
		if head, err = r.Head(); err != nil {
			return nil, err
		}
		if head.Lost > 0 {
			if err := d.noteLost(ref, r); err != nil {
				return nil, err
			}
		}
		n, err := r.Uncovered()
		if err != nil {
			return nil, err
		}
		d.uncovered += n
		return r.Audit(d.deep)
	})
	last := uint64(0)
	for n := uint64(1); d.deep && ok && n <= head.Entries; n += auditPage {
		ok = step(func(r session.Reader) (found []string, err error) {
			found, last, err = r.AuditEntries(n, min(n+auditPage-1, head.Entries), last)
			return found, err
		})
	}
	for i, f := range faults {
		faults[i] = fmt.Sprintf("session %s: %s", ref, f)
	}
	return faults
}
