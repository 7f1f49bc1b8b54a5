package natsmicro

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lcm/events"
	"lcm/internal/api"
)

// madeTurn is a prepared turn as an ingestor forwards it.
func madeTurn(t *testing.T, id, text string) api.Write {
	t.Helper()
	turn := events.TurnAppended{ID: id, Role: events.RoleUser, Text: text, Tokens: 3, InputTokens: 4}
	made, err := events.MakeTurn(&turn)
	if err != nil {
		t.Fatal(err)
	}
	return api.Write{Turn: &api.Turn{Turn: turn, ParentID: "p", Line: 7, Prepared: true, Made: made}}
}

func forwardedAppends(t *testing.T) []api.AppendRequest {
	settings, other := events.DefaultSettings(), events.DefaultSettings()
	other.Window = 1234
	raw := api.Write{Turn: &api.Turn{Turn: events.TurnAppended{ID: "raw", Role: events.RoleTool, Text: "not prepared\n"}}}
	return []api.AppendRequest{
		{Ref: events.Ref{Tenant: "t", Session: "a\nb"}, Settings: &settings, PreparedFor: 9, Writes: []api.Write{madeTurn(t, "1\"", "one\ntwo"), raw, madeTurn(t, "2", "")}},
		{Ref: events.Ref{Tenant: "t", Session: "b"}, Settings: &other, Writes: []api.Write{{MoveTo: "x"}}},
		{Ref: events.Ref{Tenant: "t", Session: "c"}, Settings: &settings, Writes: []api.Write{{Compaction: &events.HistoryCompacted{ID: "c"}, AfterID: "1"}, madeTurn(t, "3", "three")}},
		{Ref: events.Ref{Tenant: "t", Session: "d"}, Writes: []api.Write{madeTurn(t, "4", "four")}},
	}
}

func TestForwardedAppendsArriveAsTheyWere(t *testing.T) {
	want := forwardedAppends(t)
	data, err := pack(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := unpack(data)
	if err != nil {
		t.Fatal(err)
	}
	payload := cmp.Transformer("payload", func(m *events.MadeTurn) []string {
		if m == nil {
			return nil
		}
		return []string{string(m.Payload(5, 6)), m.Hash, m.Source}
	})
	if diff := cmp.Diff(want, got, payload); diff != "" {
		t.Error(diff)
	}
	if n := bytes.Count(data, []byte(`"window":`)); n != 2 {
		t.Errorf("settings stand there %d times", n)
	}
}

// What is cut off, or longer, or makes no sense is refused.
func TestForwardedAppendsAreWholeOrRefused(t *testing.T) {
	data, err := pack(forwardedAppends(t))
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		if _, err := unpack(data[:n]); err == nil {
			t.Errorf("%d bytes of %d were read", n, len(data))
		}
	}
	for _, bad := range []string{
		string(data) + "x", `{"requests":[{"settings":1}]}`, `{"requests":[{"settings":-1}]}`,
		`{"requests":[{"writes":[{"bytes":-1}]}]}`, `{"requests":[{"writes":[{}]}]}`, `{"requests":[{"writes":[{"bytes":2}]}]}` + "\n{]",
	} {
		if _, err := unpack([]byte(bad)); err == nil {
			t.Errorf("read: %s", bad)
		}
	}
}
