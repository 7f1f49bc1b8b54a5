package bench

import (
	"context"
	"testing"
)

// BenchmarkRun runs what `lcm bench` runs, for profiles:
//
//	go test ./internal/bench -run - -bench Run/append -benchtime 1x -cpuprofile cpu.out
func BenchmarkRun(b *testing.B) {
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := Run(context.Background(), name, Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.Log("\n" + r.Text())
			}
		})
	}
}
