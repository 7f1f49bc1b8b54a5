package natslog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lcm/events"
	"lcm/internal/api"
)

// BenchmarkFollow replays a log of 600-byte events.
func BenchmarkFollow(b *testing.B) {
	l := open(b)
	var batch []api.Append
	for i := range b.N {
		batch = append(batch, event(fmt.Sprint(i%64, "-", i/1000), strings.Repeat("x", 550), 0))
		if len(batch) == 1000 || i == b.N-1 {
			must(b, l, batch)
			batch = nil
		}
	}
	b.ResetTimer()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	_ = l.Follow(ctx, 0, func(_ context.Context, recs []events.Record) error {
		if n += len(recs); n == b.N {
			cancel()
		}
		return nil
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkCommit stores events of 64 sessions, synchronously written.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 8, 64, 1000} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			l := open(b)
			last := make([]uint64, 64)
			for n := 0; n < b.N; n += size {
				var batch []api.Append
				for i := range size {
					batch = append(batch, event(fmt.Sprint(i%64), strings.Repeat("x", 550), last[i%64]))
				}
				for i, seq := range must(b, l, slices.Clip(batch)) {
					last[i%64] = seq
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
