package projector_test

import (
	"testing"

	"lcm/internal/api"
)

// BenchmarkGrep searches 20,000 turns in process, warm.
func BenchmarkGrep(b *testing.B) {
	f := setup(b, sessionLog(20_000, 100)).start()
	f.awaitIndex()
	for name, q := range map[string]api.GrepRequest{
		"words":             {Pattern: "parser error buffer"},
		"phrase":            {Pattern: "the parser reads", Mode: "phrase"},
		"session":           {Pattern: "parser", Sessions: []string{"s007"}},
		"relevance":         {Pattern: "what did the parser do with the token?", Mode: "relevance"},
		"relevance session": {Pattern: "what did the parser do with the token?", Mode: "relevance", Sessions: []string{"s007"}},
		"regex":             {Pattern: `buffer \w+ing`, Mode: "regex"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f.grep(q)
			}
		})
	}
}
