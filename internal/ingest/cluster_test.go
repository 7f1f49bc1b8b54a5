package ingest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"lcm/internal/api"
	"lcm/internal/clustertest"
	"lcm/natslog"
)

// Three replicas; the server that leads the log is killed under load, and
// comes back: every acknowledged turn is there once, in its place.
func TestClusterServerKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers take a while")
	}
	c := clustertest.Start(t)
	n := startOn(t, c.Conn(), natslog.Options{Create: true, Replicas: clustertest.Size}, Config{CommitTimeout: 2 * time.Second}, false)
	const sessions, turns = 8, 60
	var acked atomic.Int64
	var g errgroup.Group
	for s := range sessions {
		g.Go(func() error {
			for i := range turns {
				if err := untilAcknowledged(n, s, i); err != nil {
					return err
				}
				acked.Add(1)
			}
			return nil
		})
	}
	g.Go(func() error {
		for acked.Load() < sessions*turns/4 {
			time.Sleep(time.Millisecond)
		}
		leader := c.Leader(natslog.StreamLog)
		if leader < 0 {
			return fmt.Errorf("the log has no leader")
		}
		before := acked.Load()
		c.Kill(leader)
		for acked.Load() < before+sessions { // the other two go on
			time.Sleep(time.Millisecond)
		}
		c.Restart(leader)
		return nil
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for s := range sessions {
		n.oneOfEach(t, ref(fmt.Sprint("s", s)), turns)
	}
}

// untilAcknowledged appends a turn as a client does: again, with the same id,
// until it has an answer.
func untilAcknowledged(n *node, session, i int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	var last error
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		out, err := n.svc.Append(try, api.AppendRequest{Ref: ref(fmt.Sprint("s", session)), Writes: []api.Write{said(fmt.Sprint("m", i), "x")}})
		cancel()
		if last = err; err != nil {
			continue
		}
		if w := out.Written[0]; w.Error != "" || w.Entry != uint64(i+1) {
			return fmt.Errorf("session %d turn %d: %+v", session, i, w)
		}
		return nil
	}
	return fmt.Errorf("session %d turn %d is not acknowledged: %w", session, i, last)
}
