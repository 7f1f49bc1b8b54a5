package ingest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
	"lcm/natsembed"
	"lcm/natslog"
)

// benchLog is a real log with synchronous writes.
func benchLog(b *testing.B) *natslog.Log {
	b.Helper()
	s, err := natsembed.Start(natsembed.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Stop)
	nc, err := s.Conn()
	if err != nil {
		b.Fatal(err)
	}
	l, err := natslog.Open(context.Background(), nc, natslog.Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// knowsNothing is a projection that never gets further: every turn is new, and
// what is measured is the append path, not a projector beside it.
func knowsNothing(l *natslog.Log) Lookup {
	return func(context.Context, api.LookupRequest) (*api.LookupReply, error) {
		return &api.LookupReply{Watermark: events.Position{Epoch: l.Epoch()}}, nil
	}
}

func benchService(b *testing.B, l *natslog.Log, m Measures) *Service {
	b.Helper()
	commits := 0
	svc, err := New(Config{Unprojected: 1 << 30}, Deps{
		Log: l, Lookup: knowsNothing(l), Measures: m, Observe: func(Committed) { commits++ },
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = svc.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done; b.Logf("%d commits for %d turns", commits, b.N) })
	return svc
}

var benchText = strings.Repeat("the build fails in ingest/stage.go, line 42: ", 10) // 450 bytes, about 600 with the envelope

// rawAppends is what the engine alone does with the same messages: batches of
// n events over as many subjects as there are sessions.
func rawAppends(b *testing.B, l *natslog.Log, sessions, batch, total int) figure {
	b.Helper()
	cpu := cpuTime()
	last := make([]uint64, sessions)
	links := make([]events.Link, sessions)
	start := time.Now()
	var spent time.Duration // on making the messages
	for n := 0; n < total; n += batch {
		making := time.Now()
		group := make([]api.Append, batch)
		seen := map[int]bool{}
		for i := range group {
			s := (n + i) % sessions
			subject := events.Subject(events.LaneTimeline, events.Ref{Tenant: "raw", Session: fmt.Sprint(s)}, l.Partitions())
			var err error
			group[i].Message, links[s], err = events.Encode(subject, &events.TurnAppended{ID: fmt.Sprint(n + i), Role: events.RoleUser, Text: benchText}, start, links[s])
			if err != nil {
				b.Fatal(err)
			}
			if !seen[s] {
				group[i].Expect, seen[s] = last[s], true
			}
		}
		spent += time.Since(making)
		seqs, err := l.Commit(context.Background(), group)
		if err != nil {
			b.Fatal(err)
		}
		for i, seq := range seqs {
			last[(n+i)%sessions] = seq
		}
	}
	return figure{
		perSecond: float64(total) / (time.Since(start) - spent).Seconds(),
		cpu:       (cpuTime() - cpu - spent) / time.Duration(total),
	}
}

// figure of a run. CPU per turn transfers between machines, turns per second
// does not.
type figure struct {
	perSecond float64
	cpu       time.Duration
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measured runs fn over b.N turns and reports it beside the raw figure.
func measured(b *testing.B, raw figure, fn func() error) {
	b.Helper()
	b.ResetTimer()
	start, cpu := time.Now(), cpuTime()
	if err := fn(); err != nil {
		b.Fatal(err)
	}
	ours := float64(b.N) / time.Since(start).Seconds()
	b.ReportMetric(ours, "turns/s")
	b.ReportMetric(raw.perSecond, "raw/s")
	b.ReportMetric(ours/raw.perSecond, "ours/raw")
	b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/turn")
	b.ReportMetric(float64(raw.cpu.Nanoseconds())/1000, "raw-cpu-µs")
}

// BenchmarkAppendLive: sessions append one turn at a time, each waiting for its
// durable acknowledgement.
func BenchmarkAppendLive(b *testing.B) {
	for _, sessions := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			l := benchLog(b)
			raw := rawAppends(b, l, sessions, sessions, max(sessions*20, 1000))
			svc := benchService(b, l, quickMeasures)
			var next atomic.Int64
			measured(b, raw, func() error {
				var g errgroup.Group
				for s := range sessions {
					g.Go(func() error {
						for {
							n := next.Add(1)
							if n > int64(b.N) {
								return nil
							}
							_, err := svc.Append(context.Background(), api.AppendRequest{Ref: ref(fmt.Sprint(s)), Writes: []api.Write{said(fmt.Sprint(n), benchText)}})
							if err != nil {
								return err
							}
						}
					})
				}
				return g.Wait()
			})
		})
	}
}

// BenchmarkAppendBulk: one caller appends requests of 999 turns to a session.
func BenchmarkAppendBulk(b *testing.B) {
	for _, m := range []struct {
		name string
		m    Measures
	}{{"append", quickMeasures}, {"append+count", Measures{}}} {
		b.Run(m.name, func(b *testing.B) {
			l := benchLog(b)
			raw := rawAppends(b, l, 1, 1000, 20_000)
			svc := benchService(b, l, m.m)
			measured(b, raw, func() error {
				for n := 0; n < b.N; {
					req := api.AppendRequest{Ref: ref("bulk")}
					for ; n < b.N && len(req.Writes) < importBatch; n++ {
						req.Writes = append(req.Writes, said(fmt.Sprint(n), benchText))
					}
					if _, err := svc.Append(context.Background(), req); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// BenchmarkImport: a transcript from its bytes to the log.
func BenchmarkImport(b *testing.B) {
	l := benchLog(b)
	raw := rawAppends(b, l, 1, 1000, 20_000)
	svc := benchService(b, l, quickMeasures)
	var file strings.Builder
	for n := range b.N {
		fmt.Fprintf(&file, "{\"role\":\"user\",\"content\":\"%d %s\"}\n", n, benchText)
	}
	measured(b, raw, func() error {
		_, err := Import(context.Background(), strings.NewReader(file.String()), ImportOptions{Tenant: "t", File: "bench"}, svc)
		return err
	})
}
