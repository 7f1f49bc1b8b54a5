package toolsvc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/auth"
	"lcm/internal/problem"
)

type fakeLog struct{ Log }

func (fakeLog) Epoch() string                           { return "EPOCH" }
func (fakeLog) Partitions() int                         { return 16 }
func (fakeLog) LastSeq(context.Context) (uint64, error) { return 7, nil }

func (fakeLog) LastOf(context.Context, string) (uint64, error) { return 0, nil }

// fakeWrites refuses what its name says.
type fakeWrites struct{ Writes }

func (fakeWrites) Append(_ context.Context, in api.AppendRequest) (*api.AppendReply, error) {
	r := &api.AppendReply{}
	for _, w := range in.Writes {
		out := api.Written{ID: w.Turn.Turn.ID, Entry: 1}
		if code, refused := strings.CutPrefix(out.ID, "refuse "); refused {
			out = api.Written{ID: out.ID, Code: code, Error: "refused as " + code}
		}
		r.Written = append(r.Written, out)
	}
	return r, nil
}

// fakeParse takes a turn id a line.
func fakeParse(body []byte, _ string) (writes []api.Write, _ error) {
	for id := range strings.Lines(string(body)) {
		writes = append(writes, api.Write{Turn: &api.Turn{Turn: events.TurnAppended{ID: strings.TrimSpace(id)}}})
	}
	return writes, nil
}

// serveFakes serves the tools over deps, with the reads absent: a call that
// reaches them panics.
func serveFakes(t *testing.T, d Deps) string {
	t.Helper()
	d.Log, d.Writes, d.Parse = fakeLog{}, fakeWrites{}, fakeParse
	s, err := New(DefaultConfig(), d)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Handler(slog.New(slog.DiscardHandler), "test")
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(auth.As(api.Operator(), h))
	t.Cleanup(srv.Close)
	return srv.URL
}

type problemBody struct {
	Status int                `json:"status"`
	Code   problem.Code       `json:"code"`
	Detail string             `json:"detail"`
	Turns  []api.AppendedTurn `json:"turns"`
}

func do(t *testing.T, method, url, body string) (int, problemBody) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p problemBody
	_ = json.Unmarshal(data, &p) // other answers have other members
	if !json.Valid(data) {
		t.Fatalf("%s: not JSON: %s", url, data)
	}
	if resp.StatusCode != http.StatusOK && (resp.Header.Get("Content-Type") != "application/problem+json" || p.Status != resp.StatusCode) {
		t.Errorf("%s %s: HTTP %d with %s %s", method, url, resp.StatusCode, resp.Header.Get("Content-Type"), data)
	}
	return resp.StatusCode, p
}

// An import that reports progress while its body still arrives must read every
// byte of it: HTTP/1 servers read the rest away once an answer begins.
func TestImportReadsAllWhileAnswering(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	var got [sha256.Size]byte
	base := serveFakes(t, Deps{
		Import: func(_ context.Context, r io.Reader, _ api.ImportIn, progress func(api.ImportProgress)) ([]api.ImportReport, error) {
			h := sha256.New()
			for {
				for start := time.Now(); time.Since(start) < 250*time.Millisecond; {
					progress(api.ImportProgress{Turns: 1}) // an answer begins, lines follow
				}
				if n, err := io.CopyN(h, r, 1<<20); n == 0 || err != nil {
					got = [sha256.Size]byte(h.Sum(nil))
					return []api.ImportReport{{Session: "s"}}, nil
				}
			}
		},
	})
	resp, err := http.Post(base+"/v1/import?session=s&file=f", "application/octet-stream", bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(answer, []byte(`{"progress"`)); n < 2 {
		t.Errorf("%d lines of progress: the test shows nothing\n%s", n, answer)
	}
	if got != sha256.Sum256(sent) {
		t.Error("the import read something else than what was sent")
	}
}

func TestAppendStatus(t *testing.T) {
	base := serveFakes(t, Deps{})
	for _, tt := range []struct {
		body   string
		status int
		turns  int
	}{
		{"a", http.StatusOK, 1},
		{"refuse conflict", http.StatusConflict, 1},
		{"refuse too_large", http.StatusRequestEntityTooLarge, 1},
		{"refuse invalid\nrefuse conflict", http.StatusBadRequest, 2},
		{"a\nrefuse conflict", http.StatusOK, 2}, // each turn says how it went
		{"refuse a code of tomorrow", http.StatusInternalServerError, 1},
	} {
		status, p := do(t, http.MethodPost, base+"/v1/append?session=s", tt.body)
		if status != tt.status || len(p.Turns) != tt.turns {
			t.Errorf("%q: HTTP %d with %d turns, want %d with %d", tt.body, status, len(p.Turns), tt.status, tt.turns)
		}
	}
}

func TestParametersAreRefusedInWords(t *testing.T) {
	base := serveFakes(t, Deps{})
	for _, tt := range []struct{ method, path, body, says string }{
		{"GET", "/v1/grep?pattern=x&session=a;b", "", "query cannot be read"},
		{"GET", "/v1/grep?pattern=x&session=%zz", "", "query cannot be read"},
		{"GET", "/v1/context?session=a&session=b", "", "session is given 2 times"},
		{"GET", "/v1/context?session=%ff", "", "session is not valid UTF-8"},
		{"POST", "/v1/append?session=%ff", "a", "session is not valid UTF-8"},
		{"GET", "/v1/context?session=a&window=x", "", `"x" is no whole number`},
		{"GET", "/v1/context?session=a&fresh=maybe", "", `"maybe" is neither true nor false`},
		{"GET", "/v1/context?session=a&zzz=1", "", `no parameter "zzz"`},
		{"GET", "/v1/context?session=a&tenant=" + strings.Repeat("t", 201), "", "at most 200"},
		{"GET", "/v1/sessions?tenant=" + strings.Repeat("t", 201), "", "at most 200"},
		{"POST", "/v1/context", `{"session":"a"}{"session":"b"}`, "more than one JSON value"},
		{"POST", "/v1/context", `{"session":"a"}]`, "more than one JSON value"},
		{"POST", "/v1/context", `{"session":5}`, "parameter session is a JSON number"},
		{"POST", "/v1/context", `{"session":"a","window":"5"}`, "parameter window is a JSON string"},
		{"POST", "/v1/context", `{"session":"a","window":1e400}`, "parameter window"},
		{"POST", "/v1/context", `{"session":"a","zzz":1}`, `no parameter "zzz"`},
		{"POST", "/v1/context", `[]`, "not an object"},
		{"POST", "/v1/context", `{"session":`, "not JSON"},
		{"POST", "/v1/context?session=a", `{"session":"a"}`, "not both"},
		{"POST", "/v1/move?session=a&to=e1", `{"fresh":true}`, "not both"},
		{"POST", "/v1/move?to=e1", `{"session":"a"}`, "not both"},
		{"POST", "/v1/move?session=a", `{"to":""}`, "no turn is named"},
		{"POST", "/v1/move?session=a", `{"too":"e1"}`, `no parameter "too"`},
		{"POST", "/v1/move?session=a", `[]`, "not an object"},
		{"POST", "/v1/move?session=a", `null`, "no turn is named"},
		{"GET", "/v1/context", "", "no session is named"},
		{"POST", "/v1/condense", `{"session":"a","window":-1}`, "negative"},
		{"GET", "/v1/grep?pattern=x&roles=robot", "", "none of system"},
		{"GET", "/v1/grep?pattern=x&depths=-1", "", "depth -1"},
		{"GET", "/v1/grep?pattern=x&limit=-1", "", "negative"},
		{"GET", "/v1/grep?pattern=x&since=2030-01-01T00:00:00Z&until=2020-01-01T00:00:00Z", "", "nothing lies between"},
		{"GET", "/v1/grep?pattern=x&node=a/n1&sessions=b", "", "not of another session"},
		{"GET", "/v1/describe?id=%2312", "", `"#12" names no session`},
		{"GET", "/v1/doctor?repair=true", "", "repair changes things"},
		{"HEAD", "/v1/doctor?repair=true", "", ""},
	} {
		if tt.method == "HEAD" {
			resp, err := http.Head(base + tt.path)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusBadRequest {
				t.Errorf("HEAD %s: HTTP %d", tt.path, resp.StatusCode)
			}
			continue
		}
		status, p := do(t, tt.method, base+tt.path, tt.body)
		if status != http.StatusBadRequest || p.Code != problem.Invalid || !strings.Contains(p.Detail, tt.says) {
			t.Errorf("%s %s %s: HTTP %d %s %q, want it to say %q", tt.method, tt.path, tt.body, status, p.Code, p.Detail, tt.says)
		}
		if strings.Contains(p.Detail, "Go struct") || strings.Contains(p.Detail, "strconv") || strings.Contains(p.Detail, "\n") {
			t.Errorf("%s %s: %q talks of Go", tt.method, tt.path, p.Detail)
		}
	}
}

// damagedReads cannot read a row; an operator's calls do not need one.
type damagedReads struct{ Reads }

func (damagedReads) Sessions(context.Context, api.SessionsRequest) (*api.SessionsReply, error) {
	return nil, problem.New(problem.Damaged, "a page cannot be read")
}

func (damagedReads) Rebuild(context.Context, api.RebuildRequest) (*api.RebuildReply, error) {
	return &api.RebuildReply{}, nil
}

func (damagedReads) Doctor(context.Context, api.DoctorRequest) (*api.DoctorReply, error) {
	return &api.DoctorReply{}, nil
}

func (damagedReads) Status(context.Context) (*api.StatusReply, error) {
	return nil, problem.New(problem.Damaged, "a page cannot be read")
}

type noDead struct{ DeadLetters }

func (noDead) Dead(context.Context, *events.Ref, uint64, int) ([]api.DeadLetter, error) {
	return nil, nil
}

// Rows that cannot be read are what doctor finds and rebuild mends: they must
// not keep them from starting. `lcm` asks for the newest state with both.
func TestDamageDoesNotStopItsRepair(t *testing.T) {
	base := serveFakes(t, Deps{Reads: damagedReads{}, Dead: noDead{}})
	for _, tool := range []string{"rebuild", "doctor"} {
		if status, p := do(t, http.MethodPost, base+"/v1/"+tool, `{"fresh":true}`); status != http.StatusOK {
			t.Errorf("%s: HTTP %d %+v", tool, status, p)
		}
	}
	if status, p := do(t, http.MethodPost, base+"/v1/sessions", `{"fresh":true}`); p.Code != problem.Damaged {
		t.Errorf("sessions: HTTP %d %+v", status, p)
	}
}

// A token of another log is refused also where the newest state is asked for.
func TestTokenOfAnotherLog(t *testing.T) {
	s, err := New(DefaultConfig(), Deps{Log: fakeLog{}})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]events.Position{
		"":        {Epoch: "EPOCH", Seq: 7},
		"EPOCH@5": {Epoch: "EPOCH", Seq: 7},
		"EPOCH@9": {Epoch: "EPOCH", Seq: 9},
		"OTHER@5": {Epoch: "OTHER", Seq: 5}, // the projector says what is wrong with it
	} {
		_, got, err := s.scope(api.WithCaller(t.Context(), api.Operator()), &api.Scope{Token: token, Fresh: true})
		if err != nil || got != want {
			t.Errorf("token %q: reads at %v, %v; want %v", token, got, err, want)
		}
	}
}

// A tool that panics fails its own call, in one line.
func TestPanicIsOneFailedCall(t *testing.T) {
	base := serveFakes(t, Deps{}) // without reads, status panics
	for range 2 {
		status, p := do(t, http.MethodGet, base+"/v1/status", "")
		if status != http.StatusInternalServerError || p.Code != problem.Internal || strings.Contains(p.Detail, "goroutine") {
			t.Errorf("HTTP %d %+v", status, p)
		}
	}
}

func TestLivezSaysWhichLog(t *testing.T) {
	resp, err := http.Get(serveFakes(t, Deps{}) + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("Lcm-Epoch"); got != "EPOCH" {
		t.Errorf("Lcm-Epoch is %q", got)
	}
}

// What the description requires, a call without it is refused for.
func TestOpenAPIRequiresWhatToolsRequire(t *testing.T) {
	base := serveFakes(t, Deps{})
	resp, err := http.Get(base + "/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name     string `json:"name"`
				Required bool   `json:"required"`
			} `json:"parameters"`
		} `json:"paths"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		for _, p := range methods["get"].Parameters {
			if !p.Required {
				continue
			}
			if status, body := do(t, http.MethodGet, base+path, ""); status != http.StatusBadRequest {
				t.Errorf("GET %s without %s: HTTP %d %+v", path, p.Name, status, body)
			}
		}
	}
	for _, path := range []string{"/v1/context", "/v1/show", "/v1/settings"} {
		if _, p := do(t, http.MethodGet, base+path+"?"+url.Values{"fresh": {"true"}}.Encode(), ""); p.Code != problem.Invalid {
			t.Errorf("GET %s without a session: %+v", path, p)
		}
		required := false
		for _, p := range doc.Paths[path]["get"].Parameters {
			required = required || p.Name == "session" && p.Required
		}
		if !required {
			t.Errorf("GET %s is not said to need a session", path)
		}
	}
}

func TestWrongMethod(t *testing.T) {
	base := serveFakes(t, Deps{})
	for _, tt := range []struct {
		method, path, allow string
	}{
		{"GET", "/v1/append", "POST"},
		{"DELETE", "/v1/grep", "GET, POST, HEAD"},
		{"PUT", "/v1/condense", "POST"},
		{"POST", "/v1/openapi.json", "GET, HEAD"},
		{"POST", "/readyz", "GET, HEAD"},
		{"OPTIONS", "/v1/context", "GET, POST, HEAD"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, base+tt.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if allow := resp.Header.Get("Allow"); resp.StatusCode != http.StatusMethodNotAllowed || allow != tt.allow {
			t.Errorf("%s %s: HTTP %d, Allow %q, want 405, %q", tt.method, tt.path, resp.StatusCode, allow, tt.allow)
		}
		if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" {
			t.Errorf("%s %s answers %s", tt.method, tt.path, ct)
		}
	}
	if status, p := do(t, http.MethodGet, base+"/v1/nothing", ""); status != http.StatusNotFound || p.Code != problem.NotFound {
		t.Errorf("an unknown path: HTTP %d %+v", status, p)
	}
}

func TestSessionNamesThatLookLikeIDs(t *testing.T) {
	for id, want := range map[string]struct {
		session string
		thing   thing
	}{
		"chat":              {"chat", thing{kind: "session"}},
		"session:e12":       {"e12", thing{kind: "session"}},
		"session:a/e12":     {"a/e12", thing{kind: "session"}},
		"session:file:x":    {"file:x", thing{kind: "session"}},
		"session:session:x": {"session:x", thing{kind: "session"}},
		"session:":          {"session:", thing{kind: "session"}},
		"a/e12":             {"a", thing{kind: "entry", n: 12}},
		"a/e12/n3":          {"a/e12", thing{kind: "node", n: 3}},
		"session:a/n3":      {"a/n3", thing{kind: "session"}},
		"session:a/x/n3":    {"a/x/n3", thing{kind: "session"}},
	} {
		scope := api.Scope{}
		got, err := parseID(&scope, id)
		if err != nil || got != want.thing || scope.Session != want.session {
			t.Errorf("%q is %+v of %q, %v; want %+v of %q", id, got, scope.Session, err, want.thing, want.session)
		}
	}
}

// stuckReads never catch up.
type stuckReads struct{ Reads }

func (stuckReads) Lookup(ctx context.Context, _ api.LookupRequest) (*api.LookupReply, error) {
	<-ctx.Done()
	return nil, problem.New(problem.Stale, "the projection stands still")
}

// An agent whose memory stands still goes on with what it has.
func TestForwardDoesNotWaitForEver(t *testing.T) {
	c := DefaultConfig()
	c.ReadDeadline = 10 * time.Millisecond
	s, err := New(c, Deps{Reads: stuckReads{}, Log: fakeLog{}, Writes: fakeWrites{}, Parse: func([]byte, string) ([]api.Write, error) {
		return []api.Write{{Turn: &api.Turn{Turn: events.TurnAppended{Role: events.RoleUser, Text: "q"}, Line: 1}}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"model":"m","messages":[{"role":"user","content":"q"}]}`
	ctx := api.WithCaller(t.Context(), api.Operator())
	f, err := s.forwarded(ctx, api.ContextIn{Scope: api.Scope{Session: "s"}}, []byte(body))
	if !problem.IsCode(err, problem.Stale) {
		t.Errorf("%+v, %v", f, err)
	}
}
