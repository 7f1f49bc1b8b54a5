package natsmicro

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// ServeCommits answers the appends that other ingestors forward to the one of
// this name.
func ServeCommits(nc *nats.Conn, name string, commit func(context.Context, []api.AppendRequest) ([]api.Forwarded, error), o Options) (*Server, error) {
	s, err := newServer(nc, o)
	if err != nil {
		return nil, err
	}
	h := func(ctx context.Context, data []byte) (any, error) {
		requests, err := unpack(data)
		if err != nil {
			return nil, err
		}
		out, err := commit(ctx, requests)
		return &forwardReply{out}, err
	}
	return s.orStop(s.add("commit", subjectCommit+name, s.newSlots(), h, nil))
}

// Forward sends appends to the ingestor of a name. api.ErrLogUnavailable:
// there is none.
func Forward(ctx context.Context, nc *nats.Conn, name string, requests []api.AppendRequest) ([]api.Forwarded, error) {
	data, err := pack(requests)
	if err != nil {
		return nil, err
	}
	out := forwardReply{}
	_, err = caller{nc}.call(ctx, subjectCommit+name, data, &out)
	if errors.Is(err, errNobody) {
		return nil, fmt.Errorf("ingestor %s: %w", name, api.ErrLogUnavailable)
	}
	return out.Replies, err
}

type forwardReply struct {
	Replies []api.Forwarded `json:"replies"`
}

// packed is a request that is written already: a line of JSON, a
// forwardRequest, and behind it the payloads of the turns that are made, one
// after the other. They are most of it, and neither side writes or reads them
// as anything but the turns they are.
type packed []byte

type forwardRequest struct {
	// Settings that requests name by their place, from 1: most have the same.
	Settings []*events.Settings `json:"settings,omitempty"`
	Requests []forwardAppend    `json:"requests"`
}

type forwardAppend struct {
	Ref         events.Ref     `json:"ref"`
	Settings    int            `json:"settings,omitempty"`
	PreparedFor int            `json:"prepared_for,omitempty"`
	Writes      []forwardWrite `json:"writes"`
}

// forwardWrite is a write, or a made turn whose payload has so many bytes.
type forwardWrite struct {
	Write    *api.Write `json:"write,omitempty"`
	Bytes    int        `json:"bytes,omitempty"`
	ParentID string     `json:"parent_id,omitempty"`
	Line     int        `json:"line,omitempty"`
}

func pack(requests []api.AppendRequest) (packed, error) {
	q := forwardRequest{Requests: make([]forwardAppend, len(requests))}
	places := map[*events.Settings]int{}
	var bodies [][]byte
	for i, r := range requests {
		one := forwardAppend{Ref: r.Ref, PreparedFor: r.PreparedFor, Writes: make([]forwardWrite, len(r.Writes))}
		if r.Settings != nil {
			if places[r.Settings] == 0 {
				q.Settings = append(q.Settings, r.Settings)
				places[r.Settings] = len(q.Settings)
			}
			one.Settings = places[r.Settings]
		}
		for k := range r.Writes {
			t := r.Writes[k].Turn
			if t == nil || !t.Prepared || t.Made == nil {
				one.Writes[k].Write = &r.Writes[k]
				continue
			}
			body := t.Made.Payload(0, 0)
			bodies = append(bodies, body)
			one.Writes[k] = forwardWrite{Bytes: len(body), ParentID: t.ParentID, Line: t.Line}
		}
		q.Requests[i] = one
	}
	head, err := encode(q)
	if err != nil {
		return nil, err
	}
	return packed(bytes.Join(append([][]byte{append(head, '\n')}, bodies...), nil)), nil
}

// unpack reads what pack has written. The requests keep data.
func unpack(data []byte) ([]api.AppendRequest, error) {
	head, bodies, _ := bytes.Cut(data, []byte{'\n'})
	var q forwardRequest
	if err := json.Unmarshal(head, &q); err != nil {
		return nil, problem.New(problem.Invalid, "forwarded appends: %w", err)
	}
	out := make([]api.AppendRequest, len(q.Requests))
	for i, one := range q.Requests {
		r := api.AppendRequest{Ref: one.Ref, PreparedFor: one.PreparedFor, Writes: make([]api.Write, len(one.Writes))}
		if one.Settings < 0 || one.Settings > len(q.Settings) {
			return nil, problem.New(problem.Invalid, "forwarded appends: settings %d of %d", one.Settings, len(q.Settings))
		}
		if one.Settings > 0 {
			r.Settings = q.Settings[one.Settings-1]
		}
		for k, w := range one.Writes {
			if w.Write != nil {
				r.Writes[k] = *w.Write
				continue
			}
			if w.Bytes <= 0 || w.Bytes > len(bodies) {
				return nil, problem.New(problem.Invalid, "forwarded appends: a payload of %d bytes, %d are left", w.Bytes, len(bodies))
			}
			t, made, err := events.ReadMade(bodies[:w.Bytes:w.Bytes])
			if err != nil {
				return nil, problem.New(problem.Invalid, "forwarded appends: %w", err)
			}
			bodies = bodies[w.Bytes:]
			r.Writes[k].Turn = &api.Turn{Turn: *t, ParentID: w.ParentID, Line: w.Line, Prepared: true, Made: made}
		}
		out[i] = r
	}
	if len(bodies) > 0 {
		return nil, problem.New(problem.Invalid, "forwarded appends: %d bytes behind them", len(bodies))
	}
	return out, nil
}
