package projector_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lcm/events"
	"lcm/internal/api"
	"lcm/rank"
)

// TestRelevanceEqualsTheReference: through rows and index a question gets the
// turns, and the order, that the rules give over the conversation in memory.
func TestRelevanceEqualsTheReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed), 2))
	log := newLog("E1")
	words := strings.Fields(`parser token error cache retry budget server deploy index schema branch commit review
deadline sprint schedule ledger account export import always prefer tests coverage latency queue worker`)
	var refs []rank.Corpus
	for s := range 3 {
		rf := ref(fmt.Sprintf("s%d", s))
		log.configure(rf, nil)
		refs = append(refs, rank.Corpus{})
		for i := range 120 {
			var b strings.Builder
			for range 3 + rng.IntN(40) {
				b.WriteString(words[rng.IntN(len(words))] + " ")
			}
			role := []events.Role{events.RoleUser, events.RoleAssistant}[i%2]
			log.say(rf, role, b.String())
			refs[s].Add(string(role), rank.Dated(log.now, b.String()))
		}
	}
	f := setup(t, log).start()
	f.awaitIndex()
	for n := range 60 {
		s := rng.IntN(3)
		question := fmt.Sprintf("What did %s say about the %s and the %s?", []string{"I", "you"}[rng.IntN(2)], words[rng.IntN(len(words))], words[rng.IntN(len(words))])
		r := f.grep(api.GrepRequest{Pattern: question, Mode: "relevance", Sessions: []string{fmt.Sprintf("s%d", s)}, Limit: 20})
		var got, want []string
		for _, h := range r.Hits {
			got = append(got, h.Entry)
		}
		for _, i := range refs[s].Search(question, rank.Default())[:len(got)] {
			want = append(want, fmt.Sprintf("e%d", i+1))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d, question %d, %q:\n%v, want\n%v", seed, n, question, got, want)
		}
	}
}
