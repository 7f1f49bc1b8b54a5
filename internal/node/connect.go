package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"lcm/client"
	"lcm/internal/config"
	"lcm/internal/problem"
)

// answerWithin is how long an owner may take to show a sign of life.
const answerWithin = 5 * time.Second

// Connect gives a command its client: of the server that is named, of the one
// that owns the data directory, or of a node opened here for the length of
// the command. The returned function closes what was opened.
func Connect(ctx context.Context, c config.Config, log *slog.Logger, version string) (*client.Client, func() error, error) {
	nothing := func() error { return nil }
	if c.Server != "" {
		return client.New(c.Server).WithToken(string(c.Token)), nothing, nil
	}
	if c.NATS != "" {
		return open(ctx, c, Roles{Toolsvc: true}, nil, log, version)
	}
	lock, owner, err := waitLock(ctx, c.DataDir)
	if err != nil {
		return nil, nil, err
	}
	if owner != nil {
		if err := alive(ctx, owner); err != nil {
			return nil, nil, problem.New(problem.Unavailable, "data directory %s is owned by process %d, which does not answer at %s: %w", c.DataDir, owner.PID, owner.URL, err).
				WithHint("wait for it, or end process %d", owner.PID)
		}
		return client.New(owner.URL).WithToken(owner.Token), nothing, nil
	}
	// What a server that was killed left behind: the lock says it is gone.
	_ = os.Remove(filepath.Join(c.DataDir, ownerFile))
	return open(ctx, c, All(), lock, log, version)
}

// open runs a node in this process behind an in-process client.
func open(ctx context.Context, c config.Config, r Roles, lock *dirLock, log *slog.Logger, version string) (*client.Client, func() error, error) {
	n, err := Open(ctx, c, r, log, version)
	if err != nil {
		if lock != nil {
			lock.release()
		}
		return nil, nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- n.Run(run) }()
	done := func() error {
		cancel()
		err := <-ended
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		err = errors.Join(err, n.Close())
		if lock != nil {
			lock.release()
		}
		return err
	}
	return client.InProcess(failing{n.Handler(), n}), done, nil
}

// failing answers with the node's own failure once it has stopped, in place of
// a wait for parts that are gone.
type failing struct {
	http.Handler
	n *Node
}

func (f failing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(f.n.stopped, func() { cancel(context.Cause(f.n.stopped)) })
	defer stop()
	f.Handler.ServeHTTP(w, r.WithContext(ctx))
}

// alive asks an owner for a sign of life.
func alive(ctx context.Context, o *Owner) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL+"/livez", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var ue interface{ Unwrap() error }
		if errors.As(err, &ue) {
			return ue.Unwrap()
		}
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if epoch := resp.Header.Get("Lcm-Epoch"); resp.StatusCode != http.StatusOK || epoch == "" {
		return errors.New("what answers there is no lcm server")
	} else if o.Epoch != "" && epoch != o.Epoch {
		return fmt.Errorf("what answers there serves the log %s, not %s", epoch, o.Epoch)
	}
	return nil
}

// Serve runs every role over the data directory, with HTTP, until ctx ends.
// ready is told the URL once requests are answered.
func Serve(ctx context.Context, c config.Config, log *slog.Logger, version string, ready func(url string)) error {
	fronts, own, err := listen(c)
	if err != nil {
		return err
	}
	defer closeAll(fronts)
	ops, err := listenOps(c, All())
	if err != nil {
		return err
	}
	if ops != nil {
		defer ops.Close()
	}
	lock, owner, err := waitLock(ctx, c.DataDir)
	if err != nil {
		return err
	}
	if owner != nil {
		return problem.New(problem.Unavailable, "data directory %s is already served by process %d at %s", c.DataDir, owner.PID, owner.URL)
	}
	defer lock.release()
	_ = os.Remove(filepath.Join(c.DataDir, ownerFile))
	n, err := Open(ctx, c, All(), log, version)
	if err != nil {
		return err
	}
	n.serveOps(ops)
	silence, err := announce(c.DataDir, Owner{PID: os.Getpid(), URL: fronts[len(fronts)-1].url(), Token: own, Epoch: n.Epoch()})
	if err != nil {
		return errors.Join(err, n.Close())
	}
	defer silence()
	ready(fronts[0].url())
	return errors.Join(traced(ctx, version, log, func() error { return n.runWithHTTP(ctx, fronts) }), n.Close())
}
