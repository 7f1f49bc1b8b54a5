package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lcm/events"
	"lcm/internal/api"
)

// largeText is so many bytes of lines, no two alike.
func largeText(size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "line %d of a large turn %x; ", i, i*i)
	}
	return b.String()[:size]
}

// TestLargeTurns: turns that take many messages are read back byte for byte,
// copied with their positions, and a lost part of one costs that turn alone.
func TestLargeTurns(t *testing.T) {
	t.Setenv("LCM_WINDOW", "4000000") // nothing is due: no condenser adds an event between two looks
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	texts := map[string]string{"just": largeText(events.InlineBytes + 1), "more": largeText(2 << 20)}
	turn := func(id, text string) string { return fmt.Sprintf(`{"id":%q,"role":"user","content":%q}`, id, text) }
	appendLines(t, data, "a", turn("one", "small"), turn("just", texts["just"]), turn("two", "between"), turn("more", texts["more"]))
	appendLines(t, data, "b", turn("b1", "other"))
	appendLines(t, data, "a", turn("last", "behind"), turn("more", texts["more"])) // known
	read := func(data string) []api.TurnOut {
		t.Helper()
		turns := lines[api.TurnOut](t, ok(t, data, "show", "--json", "--raw", "a"))
		for _, one := range turns {
			if want, large := texts[one.ID]; large && one.Text != want {
				t.Errorf("turn %s has %d bytes, want %d", one.ID, len(one.Text), len(want))
			}
		}
		return turns
	}
	if got := read(data); len(got) != 5 {
		t.Errorf("%d turns", len(got))
	}
	v := verified(t, data)
	if !v.OK || v.Events != 8 || v.Last != v.Events+10 || v.Valid != v.Events { // 3 and 9 messages are 2 events
		t.Errorf("verify: %+v", v)
	}
	ok(t, data, "backup", dir)
	want := digest(t, data)
	copied := t.TempDir()
	ok(t, copied, "restore", dir)
	if got := digest(t, copied); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	if got := verified(t, copied); !got.OK || got.Last != v.Last || got.Events != v.Events {
		t.Errorf("restored: %+v, was %+v", got, v)
	}
	read(copied)

	lose(t, dir, 12) // within the second large turn
	damaged := t.TempDir()
	if r := lcm(t, damaged, "restore", dir); r.code != 4 {
		t.Fatalf("exit %d %s%s", r.code, r.out, r.err)
	}
	appendLines(t, damaged, "a", turn("end", "goes on"))
	var got []string
	for _, one := range lines[api.TurnOut](t, ok(t, damaged, "show", "--json", "a")) {
		got = append(got, one.Entry+" "+one.ID)
	}
	if want := []string{"e1 one", "e2 just", "e3 two", "e4 lcm:lost:12", "e5 last", "e6 end"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	bad := lcm(t, damaged, "verify", "--json")
	report := decode[api.VerifyReply](t, bad.out)
	if report.OK || report.Lost != 1 || report.Broken != 2 || report.Missing != 0 {
		t.Errorf("verify: %+v", report)
	}
	for _, f := range report.Faults {
		if f.Kind == api.FaultBroken && (f.Session != "a" || !strings.Contains(f.Reason, "chunks")) {
			t.Errorf("fault %+v", f)
		}
	}
	if out := lcm(t, damaged, "doctor", "--deep"); !strings.Contains(out.out, "chunks") {
		t.Errorf("doctor: %s", out.out)
	}
	digest(t, damaged)
}
