package mapper_test

import (
	"testing"
	"time"

	"lcm/internal/api"
)

// BenchmarkMap is what a row costs beside the model's answer: 64 at once, each
// answered after 20 ms. ns/op of a perfect engine is 312,500.
func BenchmarkMap(b *testing.B) {
	p := newProvider(b, 20*time.Millisecond, echo)
	w := newWorld(b, p.client(b)).open()
	input := rowsOf(b.N)
	b.ResetTimer()
	w.end(w.begin(input, api.MapRunIn{Concurrency: 64}))
	b.ReportMetric(float64(p.busy.Load())/float64(b.Elapsed()), "calls-in-hand")
	b.ReportMetric(float64(p.busy.Load())/float64(p.calls.Load())/1e6, "ms/call")
}
