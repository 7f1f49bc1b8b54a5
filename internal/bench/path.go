package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/ingest"
	"lcm/natsembed"
	"lcm/natslog"
)

// appendPath is an ingestor over a log of its own, with a projection that has
// seen nothing: what is measured is the append path, not a projector beside it.
type appendPath struct {
	svc  *ingest.Service
	log  *natslog.Log
	stop func()
}

func (r *rig) appendPath(ctx context.Context, dir string, c ingest.Config) (*appendPath, error) {
	s, err := natsembed.Start(natsembed.Options{Dir: filepath.Join(r.dir, dir), Logger: r.Log})
	if err != nil {
		return nil, err
	}
	p, err := pathOn(ctx, s, c)
	if err != nil {
		s.Stop()
		return nil, err
	}
	run, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.svc.Run(run) }() // ends with run
	p.stop = func() { cancel(); <-ended; s.Stop() }
	return p, nil
}

func pathOn(ctx context.Context, s *natsembed.Server, c ingest.Config) (*appendPath, error) {
	nc, err := s.Conn()
	if err != nil {
		return nil, err
	}
	p := &appendPath{}
	if p.log, err = natslog.Open(ctx, nc, natslog.Options{Create: true}); err != nil {
		return nil, err
	}
	nothing := events.Position{Epoch: p.log.Epoch()}
	p.svc, err = ingest.New(c, ingest.Deps{Log: p.log, Lookup: func(context.Context, api.LookupRequest) (*api.LookupReply, error) {
		return &api.LookupReply{Watermark: nothing}, nil
	}})
	return p, err
}

// bulkTurns is how many turns one append of normalised turns carries.
const bulkTurns = 999

// bulkBench appends turns that are normalised and counted already.
func bulkBench(ctx context.Context, r *rig) (Result, error) {
	p, err := r.appendPath(ctx, "path", ingest.Config{Unprojected: 1 << 30})
	if err != nil {
		return Result{}, err
	}
	defer p.stop()
	r.say("preparing %d turns of %d bytes", r.Turns, turnBytes)
	var requests []api.AppendRequest
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 0; n < r.Turns; {
		q := api.AppendRequest{Ref: events.Ref{Tenant: "default", Session: "bulk"}}
		for ; n < r.Turns && len(q.Writes) < bulkTurns; n++ {
			t := &api.Turn{Turn: events.TurnAppended{ID: fmt.Sprint("m", n), Role: events.RoleUser, Text: text(rng, n), Format: "lcm"}}
			if err := ingest.Prepare(t, 32_000, ingest.Measures{}, func(string) string { return "" }); err != nil {
				return Result{}, err
			}
			q.Writes = append(q.Writes, api.Write{Turn: t})
		}
		requests = append(requests, q)
	}
	raw := time.Duration(0)
	r.say("raw atomic batches, then appends")
	if raw, err = r.rawBatches(ctx, r.Turns); err != nil {
		return Result{}, err
	}
	start := time.Now()
	for _, q := range requests {
		out, err := p.svc.Append(ctx, q)
		if err != nil {
			return Result{}, err
		}
		if last := out.Written[len(out.Written)-1]; last.Error != "" || last.Duplicate {
			return Result{}, fmt.Errorf("append: %+v", last)
		}
	}
	took := time.Since(start)
	return Result{
		Ours: Figure{"append path, normalised turns, 999 a request, durable", rate(r.Turns, took), "turns/s"},
		Raw:  Figure{"raw atomic batches of 1,000, same payloads", rate(r.Turns, raw), "msgs/s"},
	}, nil
}
