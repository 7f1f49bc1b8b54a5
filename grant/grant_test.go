package grant

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func guard(a Ask) Ask {
	a.DelegatedScope, a.KeptWork = "look for the cause", "write the fix"
	return a
}

var wide = Ask{
	Sessions: []string{"a", "b"}, Nodes: []Node{{"c", 3}, {"c", 9}}, Tools: []string{"expand", "grep", "describe"},
	Tokens: 10_000, TTL: time.Hour, Depth: 3,
}

// below: node 3 of "c" holds 1 and 2, node 9 holds 3.
func below(child, of Node) bool {
	return child.Session == "c" && of.Session == "c" && (of.N == 3 && child.N < 3 || of.N == 9 && child.N <= 3)
}

func askOf(t *rapid.T) Ask {
	pick := func(label string, from []string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, len(from), rapid.ID[string]).Draw(t, label)
	}
	nodes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Node {
		return Node{rapid.SampledFrom([]string{"a", "c", "d"}).Draw(t, "session"), rapid.Uint64Range(1, 10).Draw(t, "n")}
	}), 0, 3).Draw(t, "nodes")
	return Ask{
		Sessions: pick("sessions", []string{"a", "b", "c"}), Nodes: nodes, Tools: pick("tools", []string{"expand", "grep", "describe", "query"}),
		Tokens: rapid.IntRange(0, 20_000).Draw(t, "tokens"), TTL: time.Duration(rapid.IntRange(0, 2*3600).Draw(t, "ttl")) * time.Second,
		Depth:          rapid.IntRange(0, 4).Draw(t, "depth"),
		DelegatedScope: rapid.SampledFrom([]string{"", "the search"}).Draw(t, "scope"), KeptWork: rapid.SampledFrom([]string{"", " ", "the rest", "The search"}).Draw(t, "kept"),
	}
}

// reach is everything a grant opens, leaf by leaf.
func reach(c Claims) map[string]bool {
	out := map[string]bool{}
	for _, s := range []string{"a", "b", "c", "d"} {
		for n := uint64(1); n <= 10; n++ {
			is := Node{s, n}
			open := c.Whole(s) || slices.ContainsFunc(c.Nodes, func(of Node) bool { return of == is || below(is, of) || below2(is, of) })
			for _, tool := range c.Tools {
				if open {
					out[fmt.Sprint(is, tool)] = true
				}
			}
		}
	}
	return out
}

// below2 is what lies two levels down.
func below2(child, of Node) bool {
	return of == Node{"c", 9} && below(child, Node{"c", 3})
}

// A child never allows what its parent does not: whatever is asked for, over
// generations.
func TestNarrowerOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parent, err := New("g0", "acme", wide, start)
		if err != nil {
			t.Fatal(err)
		}
		now := start
		for i := 1; i <= 5; i++ {
			now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "passes")) * time.Second)
			child, err := Narrow(parent, fmt.Sprint("g", i), askOf(t), now, func(c, of Node) bool { return below(c, of) || below2(c, of) })
			if err != nil {
				if !errors.Is(err, ErrWider) && !errors.Is(err, ErrUnguarded) && !errors.Is(err, ErrInvalid) {
					t.Fatal(err)
				}
				continue
			}
			had := reach(parent)
			for what := range reach(child) {
				if !had[what] {
					t.Fatalf("%+v opens %s, its parent %+v does not", child, what, parent)
				}
			}
			if child.Tenant != parent.Tenant || child.Tokens > parent.Tokens || child.Expires.After(parent.Expires) || child.Depth >= parent.Depth {
				t.Fatalf("%+v is wider than %+v", child, parent)
			}
			if child.DelegatedScope == "" || strings.TrimSpace(child.KeptWork) == "" || strings.EqualFold(child.DelegatedScope, child.KeptWork) {
				t.Fatalf("%+v hands on without a word", child)
			}
			if child.Root() != "g0" || child.Parent() != parent.ID {
				t.Fatalf("chain %v of %s", child.Chain, child.ID)
			}
			parent = child
		}
	})
}

func TestAsk(t *testing.T) {
	root, err := New("g0", "acme", wide, start)
	if err != nil {
		t.Fatal(err)
	}
	leaf := root
	leaf.Depth = 0
	with := func(f func(*Ask)) Ask { a := guard(Ask{}); f(&a); return a }
	tests := []struct {
		name   string
		parent Claims
		ask    Ask
		err    error
	}{
		{"all of it", root, guard(Ask{Depth: 2}), nil},
		{"no word", root, Ask{}, ErrUnguarded},
		{"keeps nothing", root, Ask{DelegatedScope: "everything", KeptWork: "Everything"}, ErrUnguarded},
		{"no further", leaf, guard(Ask{}), ErrWider},
		{"as deep", root, with(func(a *Ask) { a.Depth = 3 }), ErrWider},
		{"another session", root, with(func(a *Ask) { a.Sessions = []string{"a", "x"} }), ErrWider},
		{"part of a whole one", root, with(func(a *Ask) { a.Nodes = []Node{{"a", 7}} }), nil},
		{"whole where a part is open", root, with(func(a *Ask) { a.Sessions = []string{"c"} }), ErrWider},
		{"below a node", root, with(func(a *Ask) { a.Nodes = []Node{{"c", 2}} }), nil},
		{"beside a node", root, with(func(a *Ask) { a.Nodes = []Node{{"c", 4}} }), ErrWider},
		{"another tool", root, with(func(a *Ask) { a.Tools = []string{"query"} }), ErrWider},
		{"more tokens", root, with(func(a *Ask) { a.Tokens = 10_001 }), ErrWider},
		{"longer", root, with(func(a *Ask) { a.TTL = 2 * time.Hour }), ErrWider},
		{"no time", root, with(func(a *Ask) { a.TTL = time.Millisecond }), ErrInvalid},
		{"negative", root, with(func(a *Ask) { a.Tokens = -1 }), ErrInvalid},
	}
	for _, tt := range tests {
		if _, err := Narrow(tt.parent, "g1", tt.ask, start, below); !errors.Is(err, tt.err) || tt.err == nil && err != nil {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
		}
	}
	for name, a := range map[string]Ask{
		"nothing":     {Tools: []string{"x"}, Tokens: 1, TTL: time.Hour},
		"no tools":    {Sessions: []string{"a"}, Tokens: 1, TTL: time.Hour},
		"no tokens":   {Sessions: []string{"a"}, Tools: []string{"x"}, TTL: time.Hour},
		"for ever":    {Sessions: []string{"a"}, Tools: []string{"x"}, Tokens: 1, TTL: 48 * time.Hour},
		"deep":        {Sessions: []string{"a"}, Tools: []string{"x"}, Tokens: 1, TTL: time.Hour, Depth: 5},
		"no name":     {Sessions: []string{""}, Tools: []string{"x"}, Tokens: 1, TTL: time.Hour},
		"no node":     {Nodes: []Node{{"a", 0}}, Tools: []string{"x"}, Tokens: 1, TTL: time.Hour},
		"many tokens": {Sessions: []string{"a"}, Tools: []string{"x"}, Tokens: MaxTokens + 1, TTL: time.Hour},
	} {
		if _, err := New("g", "t", a, start); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func key(t *testing.T, b byte) Key {
	t.Helper()
	k, err := NewKey([]byte(strings.Repeat(string(b), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestToken(t *testing.T) {
	k := key(t, 'k')
	c, err := New("g0", "acme", wide, start)
	if err != nil {
		t.Fatal(err)
	}
	token, err := k.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.Open(token, start.Add(59*time.Minute))
	if err != nil || cmp.Diff(c, got) != "" || !Looks(token) {
		t.Fatalf("%v: %s", err, cmp.Diff(c, got))
	}
	if _, err := k.Open(token, start.Add(time.Hour)); !errors.Is(err, ErrExpired) {
		t.Errorf("after its time: %v", err)
	}
	if _, err := key(t, 'x').Open(token, start); !errors.Is(err, ErrToken) {
		t.Errorf("another key: %v", err)
	}
	if _, err := key(t, 'x').Open(token, start.Add(2*time.Hour)); !errors.Is(err, ErrToken) {
		t.Errorf("another key, expired: %v", err)
	}
	forged := func(m jwt.SigningMethod, key any, typ string, change func(*signed)) string {
		s := signed{c, issuer, jwt.NewNumericDate(c.Expires)}
		change(&s)
		j := jwt.NewWithClaims(m, s)
		j.Header["typ"] = typ
		out, err := j.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	same := func(*signed) {}
	public := k.private.Public()
	for name, bad := range map[string]string{
		"none":             forged(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, kind, same),
		"hmac by public":   forged(jwt.SigningMethodHS256, []byte(fmt.Sprint(public)), kind, same),
		"another kind":     forged(jwt.SigningMethodEdDSA, k.private, "JWT", same),
		"another issuer":   forged(jwt.SigningMethodEdDSA, k.private, kind, func(s *signed) { s.Issuer = "x" }),
		"two times":        forged(jwt.SigningMethodEdDSA, k.private, kind, func(s *signed) { s.Seconds = jwt.NewNumericDate(c.Expires.Add(time.Hour)) }),
		"no time":          forged(jwt.SigningMethodEdDSA, k.private, kind, func(s *signed) { s.Seconds = nil }),
		"no tenant":        forged(jwt.SigningMethodEdDSA, k.private, kind, func(s *signed) { s.Tenant = "" }),
		"cut":              token[:len(token)-2],
		"empty":            "",
		"not a token":      "eyJ.eyJ.x",
		"changed payload":  strings.Replace(token, ".", ".A", 1),
		"trailing newline": token + "\n",
	} {
		if got, err := k.Open(bad, start); !errors.Is(err, ErrToken) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := NewKey([]byte("short")); err == nil {
		t.Error("a short key")
	}
	if _, err := k.Sign(Claims{}); err == nil {
		t.Error("empty claims were signed")
	}
}
