// Package lcm opens a store of lossless context management in this process, or
// reaches the server that has it open already.
//
// It is the whole system behind one call: the log, the projections, search and
// condensation. Programs that only talk to a server import package client.
package lcm

import (
	"context"
	"log/slog"

	"lcm/client"
	"lcm/internal/config"
	"lcm/internal/node"
)

// Store is an open data directory. Its calls are the client's.
type Store struct {
	*client.Client
	close func() error
}

// Options of Open. The zero value is what the command line uses.
type Options struct {
	// Settings by their names in lcm.toml, above those of the file:
	// "summarizer.kind": "openai". nil = none.
	Settings map[string]any
	// Logger for what goes wrong in the background; nil = nobody.
	Logger *slog.Logger
}

// Open opens the data directory dir, creating it where it is absent; lcm.toml in
// it is read. Where a server owns the directory, the store is that server's.
// One process at a time has a directory open: others wait for it a while.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	settings := map[string]any{"data_dir": dir}
	for k, v := range o.Settings {
		settings[k] = v
	}
	cfg, err := config.Load("", nil, settings)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c, done, err := node.Connect(ctx, cfg, o.Logger, "embedded")
	if err != nil {
		return nil, err
	}
	return &Store{Client: c, close: done}, nil
}

// Close ends what Open started. What was acknowledged is on disk.
func (s *Store) Close() error { return s.close() }
