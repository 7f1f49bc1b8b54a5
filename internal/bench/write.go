package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
	"lcm/natsembed"
)

// importTurns feeds turns through the import path of the node.
func (r *rig) importTurns(ctx context.Context, session string, turns int) (time.Duration, error) {
	return r.importMore(ctx, session, 0, turns)
}

// importMore imports turns behind the first ones.
func (r *rig) importMore(ctx context.Context, session string, first, turns int) (time.Duration, error) {
	var buf bytes.Buffer
	rng := rand.New(rand.NewPCG(1, 2))
	enc := json.NewEncoder(&buf)
	for i := first; i < first+turns; i++ {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		_ = enc.Encode(map[string]string{"id": fmt.Sprint("m", i), "role": role, "content": text(rng, i)})
	}
	start := time.Now()
	reports, err := r.n.Tools().Import(ctx, api.ImportIn{Scope: api.Scope{Session: session}, File: session + ".jsonl", Format: "lcm"}, &buf, nil)
	if err != nil {
		return 0, err
	}
	if len(reports) != 1 || reports[0].Appended != turns {
		return 0, fmt.Errorf("import of %d turns reported %+v", turns, reports)
	}
	return time.Since(start), nil
}

func ingestBench(ctx context.Context, r *rig) (Result, error) {
	r.say("importing %d turns of %d bytes", r.Turns, turnBytes)
	took, err := r.importTurns(ctx, "bench", r.Turns)
	if err != nil {
		return Result{}, err
	}
	st, err := r.n.Tools().Status(ctx, api.StatusIn{})
	if err != nil {
		return Result{}, err
	}
	if err := r.settle(ctx); err != nil {
		return Result{}, err
	}
	r.say("raw atomic batches")
	raw, err := r.rawBatches(ctx, r.Turns)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: Figure{"import, parsed, counted, durable (SyncAlways)", rate(r.Turns, took), "turns/s"},
		Raw:  Figure{"raw atomic batches of 1,000, same payloads", rate(r.Turns, raw), "msgs/s"},
		More: []Figure{
			{"rows behind when the import ended", float64(st.Lag), "events"},
			{"index behind when the import ended", float64(st.IndexLag), "events"},
		},
	}, nil
}

// settle waits until rows have caught up with the log.
func (r *rig) settle(ctx context.Context) error {
	_, err := r.n.Tools().Sessions(ctx, api.SessionsIn{Scope: api.Scope{Fresh: true}, Limit: 1})
	return err
}

// rawStream opens a bare stream with the log's storage settings.
func (r *rig) rawStream(ctx context.Context) (jetstream.JetStream, func(), error) {
	s, err := natsembed.Start(natsembed.Options{Dir: filepath.Join(r.dir, "raw"), Logger: r.Log})
	if err != nil {
		return nil, nil, err
	}
	nc, err := s.Conn()
	if err != nil {
		s.Stop()
		return nil, nil, err
	}
	stop := func() { nc.Close(); s.Stop() }
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: "RAW", Subjects: []string{"raw.>"}, Storage: jetstream.FileStorage,
			Compression: jetstream.S2Compression, AllowAtomicPublish: true, Duplicates: 100 * time.Millisecond,
		})
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return js, stop, nil
}

// rawMessages are what the log holds for such turns.
func rawMessages(n int) []*nats.Msg {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]*nats.Msg, n)
	for i := range out {
		t := &events.TurnAppended{ID: fmt.Sprint("m", i), Entry: uint64(i) + 1, Role: events.RoleUser, Text: text(rng, i), Tokens: 150, InputTokens: 150, Format: "lcm", Exact: true, RawHash: "0123456789abcdef"}
		m, _, err := events.Encode(fmt.Sprint("raw.", i%64), t, time.Unix(1, 0), events.Link{Version: 1, Hash: events.Hash{1}})
		if err != nil {
			panic(err) // strings and numbers only
		}
		out[i] = nats.NewMsg(m.Subject)
		out[i].Data = m.Data
		for k, v := range m.Header {
			out[i].Header.Set(k, v)
		}
	}
	return out
}

func (r *rig) rawBatches(ctx context.Context, n int) (time.Duration, error) {
	js, stop, err := r.rawStream(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	msgs := rawMessages(n)
	start := time.Now()
	if err := publishBatches(ctx, js, msgs); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// publishBatches stores messages in atomic batches of 1,000, the most the
// server takes.
func publishBatches(ctx context.Context, js jetstream.JetStream, msgs []*nats.Msg) error {
	for len(msgs) > 0 {
		batch := msgs[:min(1000, len(msgs))]
		msgs = msgs[len(batch):]
		if _, err := jetstreamext.PublishMsgBatch(ctx, js, batch); err != nil {
			return err
		}
	}
	return nil
}

// appenders is how many sessions append at once.
const appenders = 64

func appendBench(ctx context.Context, r *rig) (Result, error) {
	r.say("%d sessions append %d turns, each acknowledged durably", appenders, r.Turns)
	each := r.Turns / appenders
	rng := rand.New(rand.NewPCG(3, 4))
	texts := make([]string, 256)
	for i := range texts {
		texts[i] = text(rng, i)
	}
	var mu sync.Mutex
	var waits []time.Duration
	start := time.Now()
	err := concurrently(ctx, func(ctx context.Context, s int) error {
		mine := make([]time.Duration, 0, each)
		for i := range each {
			t := api.Turn{Turn: events.TurnAppended{ID: fmt.Sprint("m", i), Role: events.RoleUser, Text: texts[(s+i)%len(texts)]}}
			begin := time.Now()
			out, err := r.n.Writes().Append(ctx, api.AppendRequest{
				Ref: events.Ref{Tenant: "default", Session: fmt.Sprint("s", s)}, Writes: []api.Write{{Turn: &t}},
			})
			if err != nil {
				return err
			}
			if out.Written[0].Error != "" || out.Written[0].Duplicate {
				return fmt.Errorf("append: %+v", out.Written[0])
			}
			mine = append(mine, time.Since(begin))
		}
		mu.Lock()
		waits = append(waits, mine...)
		mu.Unlock()
		return nil
	})
	if err != nil {
		return Result{}, err
	}
	took := time.Since(start)
	r.say("raw synchronous publishes")
	raw, err := r.rawSync(ctx, each)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: Figure{"64 sessions, one turn at a time, durable", rate(each*appenders, took), "turns/s"},
		Raw:  Figure{"64 publishers, raw synchronous publish", rate(each*appenders, raw), "msgs/s"},
		More: []Figure{
			{"acknowledged, p50", quantile(waits, 0.50), "ms"},
			{"acknowledged, p99", quantile(waits, 0.99), "ms"},
		},
	}, nil
}

func (r *rig) rawSync(ctx context.Context, each int) (time.Duration, error) {
	js, stop, err := r.rawStream(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	msgs := rawMessages(each)
	start := time.Now()
	err = concurrently(ctx, func(ctx context.Context, s int) error {
		for _, m := range msgs {
			c := nats.NewMsg(fmt.Sprint("raw.", s))
			c.Data, c.Header = m.Data, m.Header
			if _, err := js.PublishMsg(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
	return time.Since(start), err
}

func concurrently(ctx context.Context, f func(ctx context.Context, i int) error) error {
	g, gctx := errgroup.WithContext(ctx)
	for i := range appenders {
		g.Go(func() error { return f(gctx, i) })
	}
	return g.Wait()
}
