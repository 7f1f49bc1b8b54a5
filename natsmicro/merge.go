package natsmicro

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// lower is the watermark that holds for both answers.
func lower(a, b events.Position) events.Position {
	if a == (events.Position{}) || b.Seq < a.Seq {
		return b
	}
	return a
}

// Sessions implements Reads: one list by name over all partitions.
func (c *ReadsClient) Sessions(ctx context.Context, q api.SessionsRequest) (*api.SessionsReply, error) {
	got, err := everyone[api.SessionsReply](ctx, c, verbSessions, q)
	if err != nil {
		return nil, err
	}
	if len(got) == 1 {
		return got[0].reply, nil
	}
	out := &api.SessionsReply{Sessions: []api.SessionRow{}}
	end, more := "", false // names behind end may be missing
	for _, a := range got {
		out.Sessions = append(out.Sessions, a.reply.Sessions...)
		out.Watermark = lower(out.Watermark, a.reply.Watermark)
		if n := a.reply.Next; n != "" && (!more || n < end) {
			end, more = n, true
		}
	}
	slices.SortFunc(out.Sessions, func(a, b api.SessionRow) int { return strings.Compare(a.Session, b.Session) })
	if more {
		i, found := slices.BinarySearchFunc(out.Sessions, end, func(r api.SessionRow, s string) int { return strings.Compare(r.Session, s) })
		if found {
			i++
		}
		out.Sessions = out.Sessions[:i]
	}
	if q.Limit > 0 && len(out.Sessions) > q.Limit {
		out.Sessions, more = out.Sessions[:q.Limit], true
	}
	if more {
		out.Next = end
		if n := len(out.Sessions); n > 0 {
			out.Next = out.Sessions[n-1].Session
		}
	}
	return out, nil
}

// Status implements Reads: positions are those of the slowest projector, lags
// of the worst, counts of all.
func (c *ReadsClient) Status(ctx context.Context) (*api.StatusReply, error) {
	got, err := everyone[api.StatusReply](ctx, c, verbStatus, struct{}{})
	if err != nil {
		return nil, err
	}
	out := got[0].reply
	for _, a := range got[1:] {
		s := a.reply
		if s.Epoch != out.Epoch {
			return nil, problem.New(problem.Damaged, "projectors follow different logs: epoch %s for partitions %s, %s for %s",
				out.Epoch, spans(got[0].parts), s.Epoch, spans(a.parts))
		}
		out.Partitions = append(out.Partitions, s.Partitions...)
		out.LogSeq, out.Lag, out.IndexLag = max(out.LogSeq, s.LogSeq), max(out.Lag, s.Lag), max(out.IndexLag, s.IndexLag)
		out.Applied, out.Indexed = min(out.Applied, s.Applied), min(out.Indexed, s.Indexed)
		out.Sessions, out.Due = out.Sessions+s.Sessions, out.Due+s.Due
		out.Entries, out.Nodes = out.Entries+s.Entries, out.Nodes+s.Nodes
		out.Rejected, out.Unknown, out.Lost = out.Rejected+s.Rejected, out.Unknown+s.Unknown, out.Lost+s.Lost
		if a, b := out.Scrub, s.Scrub; a == nil || b != nil && b.Missing+b.Broken > a.Missing+a.Broken {
			out.Scrub = b
		}
		if s.OldestDue != nil && (out.OldestDue == nil || s.OldestDue.Before(*out.OldestDue)) {
			out.OldestDue = s.OldestDue
		}
		out.StoreBytes, out.IndexBytes = out.StoreBytes+s.StoreBytes, out.IndexBytes+s.IndexBytes
	}
	slices.Sort(out.Partitions)
	return out, nil
}

// Wait implements Reads: until every projector has reached the position.
func (c *ReadsClient) Wait(ctx context.Context, p events.Position) (events.Position, error) {
	got, missing, err := fanout[events.Position](ctx, c, verbWait, p, nil)
	if err != nil {
		return events.Position{}, err
	}
	if len(missing) > 0 {
		return events.Position{}, missingError(missing)
	}
	var mark events.Position
	for _, a := range got {
		if *a.reply != (events.Position{}) {
			mark = lower(mark, *a.reply)
		}
	}
	return mark, firstError(got)
}

// Doctor implements Reads: all checks of all projectors; a partition nobody
// serves is a failed check.
func (c *ReadsClient) Doctor(ctx context.Context, q api.DoctorRequest) (*api.DoctorReply, error) {
	got, missing, err := fanout[api.DoctorReply](ctx, c, verbDoctor, q, nil)
	if err != nil {
		return nil, err
	}
	if err := firstError(got); err != nil {
		return nil, err
	}
	out := &api.DoctorReply{OK: len(missing) == 0, Checks: []api.Check{}}
	for _, a := range got {
		out.OK = out.OK && a.reply.OK
		for _, k := range a.reply.Checks {
			if len(got) > 1 {
				k.Name = fmt.Sprintf("%s (partitions %s)", k.Name, spans(a.parts))
			}
			out.Checks = append(out.Checks, k)
		}
	}
	for _, p := range missing {
		out.Checks = append(out.Checks, api.Check{Name: fmt.Sprintf("partition %d", p), Detail: "no projector answers for it"})
	}
	return out, nil
}

// Rebuild implements Reads. Of replicas one rebuilds. The digest of several
// projectors is a hash over theirs, in order of their partitions.
func (c *ReadsClient) Rebuild(ctx context.Context, q api.RebuildRequest) (*api.RebuildReply, error) {
	got, err := everyone[api.RebuildReply](ctx, c, verbRebuild, q)
	if err != nil {
		return nil, err
	}
	if len(got) == 1 {
		return got[0].reply, nil
	}
	slices.SortFunc(got, func(a, b from[api.RebuildReply]) int { return cmp.Compare(a.parts[0], b.parts[0]) })
	out := &api.RebuildReply{}
	h, live := sha256.New(), sha256.New()
	for _, a := range got {
		r := a.reply
		out.Events, out.Seconds = max(out.Events, r.Events), max(out.Seconds, r.Seconds)
		out.Turns, out.Nodes = out.Turns+r.Turns, out.Nodes+r.Nodes
		fmt.Fprintf(h, "%s=%s\n", formatParts(a.parts), r.Digest)
		fmt.Fprintf(live, "%s=%s\n", formatParts(a.parts), r.Live)
	}
	out.Digest, out.Live = hex.EncodeToString(h.Sum(nil)), hex.EncodeToString(live.Sum(nil))
	return out, nil
}
