package projector

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"lcm/events"
	"lcm/internal/api"
)

var sieveWords = strings.Fields(`getThing7ById ERR-4242 a\b "quoted" <tag> a&b x/y tool_use \u0041 Straße ſtone Kelvin kelvin K STONE 東京都 naïve é ` +
	"\u2028 tab\there \ufffd if(x){return} io.EOF 100%")

func sieveText(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range 1 + rng.IntN(n) {
		b.WriteString(sieveWords[rng.IntN(len(sieveWords))])
		b.WriteString([]string{" ", " ", "", "\n", "-"}[rng.IntN(5)])
	}
	return b.String()
}

// TestSieve: no turn that matches is ruled out by its payload, whatever it is
// made of and however its JSON escapes; and most that do not match are.
func TestSieve(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	matched, missed, out := 0, 0, 0
	for range 30_000 {
		turn := &events.TurnAppended{Text: sieveText(rng, 12)}
		if rng.IntN(2) == 0 {
			turn.Text = ""
			turn.Blocks = []events.Block{
				{Type: events.BlockText, Text: sieveText(rng, 4)},
				{Type: events.BlockToolUse, CallID: "c", Name: "getThing7ById", Input: sieveText(rng, 3)},
				{Type: events.BlockToolResult, CallID: "d", Text: sieveText(rng, 4), Content: []events.Block{{Type: events.BlockText, Text: sieveText(rng, 3)}}},
			}[:1+rng.IntN(3)]
		}
		derived := turn.DerivedText()
		body, err := json.Marshal(turn) // escapes <, > and &
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(3) == 0 {
			body = []byte(strings.NewReplacer("T", `\u0054`, "/", `\/`).Replace(string(body)))
		}
		r := api.GrepRequest{Tenant: "acme", Mode: modeSubstring, IgnoreCase: rng.IntN(2) == 0}
		runes := []rune(derived)
		if rng.IntN(3) == 0 {
			runes = []rune(sieveText(rng, 3))
		}
		from := rng.IntN(len(runes))
		r.Pattern = string(runes[from:min(len(runes), from+1+rng.IntN(20))])
		if r.IgnoreCase && rng.IntN(2) == 0 {
			r.Pattern = strings.ToUpper(r.Pattern)
		}
		q, err := newQuery(r)
		if err != nil {
			continue
		}
		if err := (&Service{}).prepare(q); err != nil {
			t.Fatal(err)
		}
		ruled := (&strainer{sieve: q.sieve}).rulesOut(body)
		switch {
		case q.match(&text{text: derived}) != nil:
			if matched++; ruled {
				t.Fatalf("%q (any case: %v) is ruled out of %q by %s", r.Pattern, r.IgnoreCase, derived, body)
			}
		case ruled:
			out++
		default:
			missed++
		}
	}
	if matched < 5_000 || out < 1_000 {
		t.Errorf("%d match, %d are ruled out, %d are not", matched, out, missed)
	}
}

// TestRequired: the literals an expression cannot match without.
func TestRequired(t *testing.T) {
	for expr, want := range map[string]string{
		`abc`:                 `[{[abc] false}]`,
		`(?i)abc`:             `[{[ABC] true}]`,
		`a(?i:b)c`:            `[{[a] false} {[B] true} {[c] false}]`,
		`foo|bar`:             `[{[foo bar] false}]`,
		`(?i:foo)|bar`:        `[{[FOO bar] true}]`,
		`foo|`:                `[]`,
		`foo|x*`:              `[]`,
		`(foo)+bar{2,}`:       `[{[foo] false} {[ba] false} {[r] false} {[r] false}]`,
		`(foo){0,3}bar?`:      `[{[ba] false}]`,
		`^(?:ab|abc|abd)\b$`:  `[{[ab] false}]`,
		`[ab]c`:               `[{[c] false}]`,
		`(abc|de(f|g)hij)k`:   `[{[abc hij] false} {[k] false}]`,
		`(?s).*`:              `[]`,
		`(?:)`:                `[]`,
		`x{0}yz`:              `[{[yz] false}]`,
		`(?i)straße|\x{212A}`: `[{[STRAßE K] true}]`,
	} {
		if got := fmt.Sprint(needsOf(expr)); got != want {
			t.Errorf("%s needs %s, want %s", expr, got, want)
		}
	}
}
