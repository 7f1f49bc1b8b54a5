package node

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"lcm/client"
	"lcm/internal/config"
	"lcm/internal/mcp"
	"lcm/internal/toolsvc"
)

// modelTools is the Model Context Protocol beside the other tools.
func (n *Node) modelTools() (toolsvc.Mount, error) {
	tools, err := n.tools.AgentTools()
	if err != nil {
		return toolsvc.Mount{}, err
	}
	s := mcp.New(mcp.Config{Version: n.version, Logger: n.slog}, tools, mcp.NewTable(tools))
	return toolsvc.Mount{
		Path: "/mcp", Doc: "Model Context Protocol, streamable HTTP without sessions.",
		Methods: []string{http.MethodPost}, Handler: s.HTTP(),
	}, nil
}

// Share is Connect for a process that stays: where nobody owns the data
// directory it becomes the owner, and serves other commands too.
func Share(ctx context.Context, c config.Config, log *slog.Logger, version string) (*client.Client, func() error, error) {
	if c.Server != "" || c.NATS != "" {
		return Connect(ctx, c, log, version)
	}
	c.HTTP, c.TLS = "127.0.0.1:0", config.TLS{} // for commands of this machine alone
	fronts, own, err := listen(c)
	if err != nil {
		return nil, nil, err
	}
	lock, owner, err := waitLock(ctx, c.DataDir)
	if err != nil || owner != nil {
		closeAll(fronts)
		if err != nil {
			return nil, nil, err
		}
		return Connect(ctx, c, log, version)
	}
	_ = os.Remove(filepath.Join(c.DataDir, ownerFile)) // of a server that is gone
	n, err := Open(ctx, c, All(), log, version)
	if err != nil {
		closeAll(fronts)
		lock.release()
		return nil, nil, err
	}
	silence, err := announce(c.DataDir, Owner{PID: os.Getpid(), URL: fronts[0].url(), Token: own, Epoch: n.Epoch()})
	if err != nil {
		closeAll(fronts)
		err = errors.Join(err, n.Close())
		lock.release()
		return nil, nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- n.runWithHTTP(run, fronts) }()
	done := func() error {
		cancel()
		silence()
		err := <-ended
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		err = errors.Join(err, n.Close())
		lock.release()
		return err
	}
	return client.InProcess(failing{n.Handler(), n}), done, nil
}
