// Package eval measures answers against sets whose right answers are known. It
// is wiring and may import everything.
package eval

import (
	"context"
	"log/slog"
	"os"

	"lcm/internal/config"
	"lcm/internal/node"
)

// Options of an evaluation.
type Options struct {
	Log      *slog.Logger // nil = silent
	Progress func(format string, a ...any)
}

func (o Options) say(format string, a ...any) {
	if o.Progress != nil {
		o.Progress(format, a...)
	}
}

// withNode runs f against a node in a temporary directory: what is measured is
// what a user gets.
func withNode(ctx context.Context, o Options, f func(context.Context, *node.Node) error) error {
	return withSettings(ctx, o, func(*config.Config) {}, f)
}

// withSettings is withNode under other settings than the defaults.
func withSettings(ctx context.Context, o Options, change func(*config.Config), f func(context.Context, *node.Node) error) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := os.MkdirTemp("", "lcm-eval-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cfg := config.Default()
	change(&cfg)
	cfg.DataDir = dir
	n, err := node.Open(ctx, cfg, node.All(), o.Log, "eval")
	if err != nil {
		return err
	}
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- n.Run(run) }()
	err = f(run, n)
	cancel()
	if rerr := <-ended; err == nil && ctx.Err() == nil {
		err = rerr
	}
	if cerr := n.Close(); err == nil {
		err = cerr
	}
	return err
}
