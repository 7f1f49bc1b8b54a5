package natsmicro

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

var options = Options{Name: "lcm-projector", Version: "1.0.0"}

// serveReads starts a projector on a connection of its own.
func serveReads(t *testing.T, nc *nats.Conn, parts []int, r Reads) *Server {
	t.Helper()
	s, err := ServeReads(nc, parts, r, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// TestConformance runs one suite over the fake itself, one projector, several,
// and replicas.
func TestConformance(t *testing.T) {
	t.Run("in process", func(t *testing.T) { conformance(t, fake{large: 1500 << 10}) })
	for name, sets := range map[string][][]int{
		"one projector":    {{0, 1, 2, 3, 4, 5, 6, 7}},
		"two projectors":   {{0, 1, 2, 3}, {4, 5, 6, 7}},
		"interleaved":      {{0, 2, 4, 6}, {1, 3, 5, 7}},
		"one a partition":  {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}},
		"replicas":         {{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}},
		"replicas of two":  {{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}, {4, 5, 6, 7}},
		"uneven, unsorted": {{5, 1}, {0, 2, 3, 4, 6, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			dial := connect(t)
			for _, set := range sets {
				f := fake{parts: slices.Sorted(slices.Values(set)), large: 1500 << 10}
				serveReads(t, dial(), set, f)
			}
			conformance(t, NewReads(dial(), partitions))
		})
	}
}

func conformance(t *testing.T, r Reads) {
	ctx, whole := t.Context(), fake{large: 1500 << 10}
	s7 := events.Ref{Tenant: "t", Session: "s07"}
	same := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s:\n%.2000s", what, d)
		}
	}
	for i := range sessions {
		q := api.ViewRequest{Ref: events.Ref{Tenant: "t", Session: sessionName(i)}, Token: events.Position{Epoch: epoch, Seq: applied}}
		want, _ := whole.View(ctx, q)
		got, err := r.View(ctx, q)
		same("view", got, want, err)
	}
	lookup := api.LookupRequest{Ref: s7, IDs: []string{"a", "ü<"}}
	wantLookup, _ := whole.Lookup(ctx, lookup)
	gotLookup, err := r.Lookup(ctx, lookup)
	same("lookup", gotLookup, wantLookup, err)
	wantFile, _ := whole.File(ctx, api.FileRequest{Ref: s7, ID: "f"})
	gotFile, err := r.File(ctx, api.FileRequest{Ref: s7, ID: "f"})
	same("file", gotFile, wantFile, err)
	gotSeq, err := r.Resolve(ctx, api.ResolveRequest{Ref: s7, At: "e1"})
	same("resolve", gotSeq, &api.ResolveReply{Seq: 12}, err)

	t.Run("large answers are whole and byte-identical", func(t *testing.T) {
		want, _ := whole.Turns(ctx, api.TurnsRequest{Ref: s7})
		got, err := r.Turns(ctx, api.TurnsRequest{Ref: s7})
		if err != nil || string(got.Turns[0].Payload) != string(want.Turns[0].Payload) {
			t.Errorf("%v: the payload of %d bytes came back with %d", err, len(want.Turns[0].Payload), len(got.Turns[0].Payload))
		}
	})
	t.Run("errors keep code, text and hint", func(t *testing.T) {
		for _, tt := range []struct {
			call func() error
			code problem.Code
			text string
		}{
			{func() error {
				_, err := r.View(ctx, api.ViewRequest{Ref: events.Ref{Tenant: "t", Session: "zz"}})
				return err
			}, problem.NotFound, "session t/zz is unknown (names are s00 to s39)"},
			{func() error { _, err := r.Node(ctx, api.NodeRequest{Ref: s7, Numbers: []uint64{9}}); return err }, problem.NotFound, "node #9 is unknown\nin t/s07"},
			{func() error { _, err := r.Resolve(ctx, api.ResolveRequest{Ref: s7}); return err }, problem.Invalid, `resolve "": no position`},
			{func() error {
				_, err := r.Grep(ctx, api.GrepRequest{Tenant: "t", Pattern: "("})
				return err
			}, problem.Invalid, "pattern: missing )"},
		} {
			err := tt.call()
			if !problem.IsCode(err, tt.code) || err.Error() != tt.text {
				t.Errorf("%v, want %s: %s", err, tt.code, tt.text)
			}
		}
	})
	t.Run("a token ahead of the projection is stale, with the watermark", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(ctx, time.Second) // a quarter of it for the way back
		defer cancel()
		ahead := events.Position{Epoch: epoch, Seq: applied + 1}
		if p, err := r.Wait(ctx, ahead); !problem.IsCode(err, problem.Stale) || p != mark() {
			t.Errorf("%v, %v", p, err)
		}
		if p, err := r.Wait(t.Context(), mark()); err != nil || p != mark() {
			t.Errorf("%v, %v", p, err)
		}
	})
	t.Run("sessions are one list by name", func(t *testing.T) { listSessions(t, r) })
	t.Run("hits are one list", func(t *testing.T) { listHits(t, r) })
	t.Run("status", func(t *testing.T) {
		want, _ := whole.Status(ctx)
		got, err := r.Status(ctx)
		same("status", got, want, err)
		d, err := r.Doctor(ctx, api.DoctorRequest{})
		if err != nil || !d.OK || len(d.Checks) == 0 {
			t.Errorf("%+v, %v", d, err)
		}
		b, err := r.Rebuild(ctx, api.RebuildRequest{})
		if err != nil || b.Events != applied || b.Turns != partitions || b.Digest == "" {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

func listSessions(t *testing.T, r Reads) {
	for _, limit := range []int{0, 1, 3, 100} {
		q := api.SessionsRequest{Tenant: "t", Prefix: "s", Limit: limit}
		var got []string
		for pages := 0; ; pages++ {
			page, err := r.Sessions(t.Context(), q)
			if err != nil || pages > sessions {
				t.Fatal(pages, err)
			}
			if limit > 0 && len(page.Sessions) > limit || page.Watermark != mark() {
				t.Errorf("limit %d: %d sessions at %v", limit, len(page.Sessions), page.Watermark)
			}
			for _, s := range page.Sessions {
				got = append(got, s.Session)
			}
			if page.Next == "" {
				break
			}
			q.After = page.Next
		}
		if len(got) != sessions || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != sessions {
			t.Errorf("limit %d: %d sessions: %v", limit, len(got), got)
		}
	}
}

func listHits(t *testing.T, r Reads) {
	for _, order := range []string{"", "relevance"} {
		q := api.GrepRequest{Tenant: "t", Pattern: "x", Sort: order, Limit: 3}
		var got []uint64
		for pages := 0; ; pages++ {
			page, err := r.Grep(t.Context(), q)
			if err != nil || pages > 2*sessions || len(page.Hits) > 3 {
				t.Fatal(pages, err, len(page.Hits))
			}
			if page.Total != sessions || len(page.NotSearched) != 0 {
				t.Errorf("total %d, not searched %v", page.Total, page.NotSearched)
			}
			for _, h := range page.Hits {
				got = append(got, h.Seq)
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
		}
		seen := slices.Compact(slices.Sorted(slices.Values(got)))
		if len(got) != sessions || len(seen) != sessions {
			t.Errorf("order %q: %d hits, %d different", order, len(got), len(seen))
		}
		if newest := slices.Clone(got); order == "" {
			slices.Sort(newest)
			slices.Reverse(newest)
			if !slices.Equal(got, newest) {
				t.Errorf("not newest first: %v", got)
			}
		}
	}
	some, err := r.Grep(t.Context(), api.GrepRequest{Tenant: "t", Pattern: "x", Sessions: []string{"s03", "s31"}, Limit: 10})
	for err == nil && some.Cursor != "" && len(some.Hits) < 2 {
		var more *api.GrepReply
		more, err = r.Grep(t.Context(), api.GrepRequest{Tenant: "t", Pattern: "x", Sessions: []string{"s03", "s31"}, Limit: 10, Cursor: some.Cursor})
		if err == nil {
			more.Hits = append(some.Hits, more.Hits...)
			some = more
		}
	}
	if err != nil || len(some.Hits) != 2 || some.Total != 2 || some.Hits[0].Session != "s31" {
		t.Errorf("%+v, %v", some, err)
	}
}

func TestPartitionWithoutAProjector(t *testing.T) {
	dial := connect(t)
	serveReads(t, dial(), []int{0, 1, 2, 3, 4}, fake{parts: []int{0, 1, 2, 3, 4}})
	r := NewReads(dial(), partitions)
	start := time.Now()
	dead, alive := 0, 0
	for i := range sessions {
		ref := events.Ref{Tenant: "t", Session: sessionName(i)}
		_, err := r.View(t.Context(), api.ViewRequest{Ref: ref})
		p := r.partition(ref)
		switch {
		case p < 5 && err == nil:
			alive++
		case p >= 5 && problem.IsCode(err, problem.Unavailable) && strings.Contains(err.Error(), fmt.Sprintf("partition %d", p)):
			dead++
		default:
			t.Errorf("partition %d: %v", p, err)
		}
	}
	if dead == 0 || alive == 0 {
		t.Errorf("%d dead, %d alive", dead, alive)
	}
	if _, err := r.Sessions(t.Context(), api.SessionsRequest{Tenant: "t"}); !problem.IsCode(err, problem.Unavailable) || !strings.Contains(err.Error(), "5-7") {
		t.Error(err)
	}
	if _, err := r.Wait(t.Context(), mark()); !problem.IsCode(err, problem.Unavailable) {
		t.Error(err)
	}
	g, err := r.Grep(t.Context(), api.GrepRequest{Tenant: "t", Pattern: "x", Limit: 50})
	if err != nil || len(g.Hits) == 0 || len(g.NotSearched) != 3 {
		t.Errorf("%+v, %v", g, err)
	}
	d, err := r.Doctor(t.Context(), api.DoctorRequest{})
	if err != nil || d.OK || len(d.Checks) != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %s to be told", d)
	}
	if _, err := NewReads(connect(t)(), partitions).Status(t.Context()); !problem.IsCode(err, problem.Unavailable) {
		t.Error(err)
	}
}

func TestLayoutChanges(t *testing.T) {
	dial := connect(t)
	one := serveReads(t, dial(), allParts(), fake{})
	r := NewReads(dial(), partitions)
	count := func() int {
		t.Helper()
		s, err := r.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Sessions
	}
	if n := count(); n != sessions {
		t.Errorf("%d sessions", n)
	}
	stop(t, one)
	low, high := []int{0, 1, 2}, []int{3, 4, 5, 6, 7}
	serveReads(t, dial(), low, fake{parts: low})
	serveReads(t, dial(), high, fake{parts: high})
	if n := count(); n != sessions {
		t.Errorf("%d sessions of two projectors", n)
	}
	overlap := []int{2, 3}
	serveReads(t, dial(), overlap, fake{parts: overlap})
	for range 20 {
		if s, err := r.Status(t.Context()); err == nil && s.Sessions != sessions {
			t.Errorf("%d sessions counted, some twice", s.Sessions)
		}
	}
}

func TestOneSlowVerbDoesNotBlockAnother(t *testing.T) {
	dial := connect(t)
	o := options
	o.Concurrency = 1
	s, err := ServeReads(dial(), allParts(), fake{}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	_ = s.nc.Flush()
	r := NewReads(dial(), partitions)
	ref := events.Ref{Tenant: "t", Session: "s01"}
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := r.View(ctx, api.ViewRequest{Ref: ref, Token: events.Position{Seq: applied + 1}})
			results <- err
		}()
	}
	for range 10 {
		if _, err := r.Lookup(t.Context(), api.LookupRequest{Ref: ref}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := <-results; !problem.IsCode(err, problem.Stale) && !problem.IsCode(err, problem.Limited) {
			t.Error(err)
		}
	}
}

func TestStop(t *testing.T) {
	dial := connect(t)
	s := serveReads(t, dial(), allParts(), fake{})
	r := NewReads(dial(), partitions)
	result := make(chan error, 1)
	go func() { _, err := r.Wait(t.Context(), events.Position{Seq: applied + 1}); result <- err }()
	waitUntil(t, func() bool { return s.stats["wait-0"].InHand.Load() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	if err := <-result; !problem.IsCode(err, problem.Stale) {
		t.Error(err)
	}
	if _, err := r.Lookup(t.Context(), api.LookupRequest{Ref: events.Ref{Tenant: "t", Session: "s01"}}); !problem.IsCode(err, problem.Unavailable) {
		t.Error(err)
	}
}

// waitUntil waits for a state that other goroutines bring about.
func waitUntil(t *testing.T, f func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for tick := time.NewTicker(time.Millisecond); !f(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it does not come about")
		}
	}
}

func TestClientGivesUp(t *testing.T) {
	nc := connect(t)()
	sub, err := nc.Subscribe("lcm.q.>", func(*nats.Msg) {}) // takes requests, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	r := NewReads(nc, partitions)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err = r.View(ctx, api.ViewRequest{Ref: events.Ref{Tenant: "t", Session: "s01"}})
	if !problem.IsCode(err, problem.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestBrokenAnswers(t *testing.T) {
	nc := connect(t)()
	var mode atomic.Value
	sub, err := nc.Subscribe("lcm.q.>", func(m *nats.Msg) {
		part := func(p, sum, data string) {
			r := nats.NewMsg(m.Reply)
			r.Header.Set(headerPart, p)
			r.Header.Set(headerSum, sum)
			r.Data = []byte(data)
			_ = nc.PublishMsg(r)
		}
		switch mode.Load() {
		case "lost part":
			part("1/3", "a", "{")
			part("3/3", "a", "}")
		case "wrong sum":
			part("1/2", "a", "{")
			part("2/2", "a", "}")
		case "two answers":
			part("1/2", "a", "{")
			part("2/2", "b", "}")
		case "nonsense part":
			part("x", "", "{}")
		case "not JSON":
			_ = m.Respond([]byte("<html>"))
		case "unreadable error":
			r := nats.NewMsg(m.Reply)
			r.Header.Set("Nats-Service-Error-Code", "500")
			_ = nc.PublishMsg(r)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for name, code := range map[string]problem.Code{
		"lost part": problem.Unavailable, "wrong sum": problem.Unavailable, "two answers": problem.Unavailable,
		"nonsense part": problem.Unavailable, "not JSON": problem.Internal, "unreadable error": problem.Internal,
	} {
		mode.Store(name)
		if _, err := NewReads(nc, partitions).View(t.Context(), api.ViewRequest{Ref: events.Ref{Tenant: "t", Session: "s01"}}); !problem.IsCode(err, code) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBadRequests(t *testing.T) {
	dial := connect(t)
	serveReads(t, dial(), allParts(), fake{})
	nc := dial()
	r := NewReads(nc, partitions)
	if _, err := r.View(t.Context(), api.ViewRequest{}); !problem.IsCode(err, problem.Invalid) {
		t.Error(err)
	}
	big := api.LookupRequest{Ref: events.Ref{Tenant: "t", Session: "s01"}, IDs: []string{strings.Repeat("x", 2<<20)}}
	if _, err := r.Lookup(t.Context(), big); !problem.IsCode(err, problem.TooLarge) {
		t.Error(err)
	}
	m, err := nc.Request(readSubject(0, verbView), []byte("{"), time.Second)
	if err != nil || m.Header.Get("Nats-Service-Error-Code") != string(problem.Invalid) {
		t.Error(m, err)
	}
	for _, parts := range [][]int{nil, {-1}} {
		if _, err := ServeReads(nc, parts, fake{}, options); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("%v: %v", parts, err)
		}
	}
	if _, err := ServeReads(nc, allParts(), fake{}, Options{Name: "no version"}); err == nil {
		t.Error("a service without a version was started")
	}
	for _, c := range []string{"m1.", "m1.!!", "m1.e30", cursorPrefix + "W3sicCI6LTF9XQ"} {
		if _, err := r.Grep(t.Context(), api.GrepRequest{Tenant: "t", Cursor: c}); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("cursor %q: %v", c, err)
		}
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(formatCursor([]hitList{{place: place{Part: 3, Cursor: "x", Skip: 1}, reply: &api.GrepReply{Hits: make([]api.Hit, 2)}}}, 7, []notSearched{{[]int{1}, "down"}}))
	f.Fuzz(func(t *testing.T, s string) {
		places, err := parseCursor(s)
		if err == nil {
			if _, err := json.Marshal(places); err != nil {
				t.Error(err)
			}
		}
	})
}

// troubled answers no search.
type troubled struct {
	fake
	err error
}

func (t troubled) Grep(context.Context, api.GrepRequest) (*api.GrepReply, error) { return nil, t.err }

// TestProjectorInTrouble: what the others found is answered, every page says
// who was not asked; a request that is wrong stays an error.
func TestProjectorInTrouble(t *testing.T) {
	dial := connect(t)
	low, high := []int{0, 1, 2, 3}, []int{4, 5, 6, 7}
	serveReads(t, dial(), low, fake{parts: low})
	serveReads(t, dial(), high, troubled{fake{parts: high}, problem.New(problem.Unavailable, "the index is away")})
	r := NewReads(dial(), partitions)
	q := api.GrepRequest{Tenant: "t", Pattern: "x", Limit: 3}
	found := map[string]bool{}
	for {
		page, err := r.Grep(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.NotSearched) != 1 || !strings.HasPrefix(page.NotSearched[0], "partitions 4-7: the index is away") || !page.TotalEstimated {
			t.Errorf("not searched: %q, total estimated %v", page.NotSearched, page.TotalEstimated)
		}
		for _, h := range page.Hits {
			found[h.Session] = true
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			break
		}
	}
	for i := range sessions {
		name := sessionName(i)
		if want := r.partition(events.Ref{Tenant: "t", Session: name}) < 4; found[name] != want {
			t.Errorf("session %s found: %v", name, found[name])
		}
	}
	if _, err := r.Grep(t.Context(), api.GrepRequest{Tenant: "t", Pattern: "("}); !problem.IsCode(err, problem.Invalid) {
		t.Errorf("a wrong pattern: %v", err)
	}
}
