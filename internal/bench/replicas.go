package bench

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/ingest"
	"lcm/natsembed"
	"lcm/natslog"
	"lcm/natsmicro"
)

// replicasBench appends through one ingestor, and then through two of which
// one commits, sessions at random.
func replicasBench(ctx context.Context, r *rig) (Result, error) {
	res := Result{
		Ours: Figure{Name: fmt.Sprintf("two ingestors, %d sessions at random, durable", appenders), Unit: "turns/s"},
		Raw:  Figure{Name: "one ingestor, the same sessions", Unit: "turns/s"},
	}
	turns := r.Turns / rounds / appenders * appenders
	for round := range rounds {
		for _, one := range []struct {
			ingestors int
			into      *float64
		}{{1, &res.Raw.Value}, {2, &res.Ours.Value}} {
			r.say("round %d: %d ingestors", round+1, one.ingestors)
			took, err := r.throughReplicas(ctx, fmt.Sprintf("replicas-%d-%d", round, one.ingestors), one.ingestors, turns)
			if err != nil {
				return Result{}, err
			}
			*one.into = max(*one.into, rate(turns, took))
		}
	}
	return res, nil
}

// throughReplicas appends turns through ingestors that share a log, each with
// its own connection.
func (r *rig) throughReplicas(ctx context.Context, dir string, ingestors, turns int) (took time.Duration, err error) {
	s, err := natsembed.Start(natsembed.Options{Dir: r.dir + "/" + dir, Logger: r.Log})
	if err != nil {
		return 0, err
	}
	defer s.Stop()
	run, cancel := context.WithCancel(ctx)
	var g errgroup.Group
	defer func() { cancel(); _ = g.Wait() }()
	var all []writes
	for i := range ingestors {
		w, err := replica(run, s, fmt.Sprint("ingestor-", i), &g)
		if err != nil {
			return 0, err
		}
		all = append(all, w)
	}
	texts := someTexts()
	took, _, err = concurrently(ctx, appenders, turns/appenders, func(ctx context.Context, session, i int) error {
		return appendOne(ctx, all[(session*7919+i*104729)%len(all)], fmt.Sprint("s", session), i, texts)
	})
	return took, err
}

// replica runs an ingestor until run ends. The first one commits.
func replica(run context.Context, s *natsembed.Server, name string, g *errgroup.Group) (writes, error) {
	nc, err := s.Conn()
	if err != nil {
		return nil, err
	}
	log, err := natslog.Open(run, nc, natslog.Options{Create: true})
	if err != nil {
		return nil, err
	}
	nothing := events.Position{Epoch: log.Epoch()}
	svc, err := ingest.New(ingest.Config{Unprojected: 1 << 30, ForwardTimeout: 20 * time.Second}, ingest.Deps{
		Log: log, Name: name, Forward: func(ctx context.Context, to string, q []api.AppendRequest) ([]api.Forwarded, error) {
			return natsmicro.Forward(ctx, nc, to, q)
		},
		Lookup: func(context.Context, api.LookupRequest) (*api.LookupReply, error) {
			return &api.LookupReply{Watermark: nothing}, nil
		},
	})
	if err != nil {
		return nil, err
	}
	endpoint, err := natsmicro.ServeCommits(nc, name, svc.AppendForwarded, natsmicro.Options{Name: "committer", Version: "0.0.0"})
	if err != nil {
		return nil, err
	}
	g.Go(func() error {
		<-run.Done()
		return endpoint.Stop(context.WithoutCancel(run))
	})
	held := make(chan struct{})
	told := false
	g.Go(func() error { return svc.Run(run) })
	g.Go(func() error {
		return log.Lease(run, name, func(holder string) {
			svc.SetCommitter(holder)
			if holder != "" && !told {
				told = true
				close(held)
			}
		})
	})
	select {
	case <-held:
		return svc, nil
	case <-run.Done():
		return nil, run.Err()
	}
}
