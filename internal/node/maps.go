package node

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/oklog/ulid/v2"

	"lcm/boltstore"
	"lcm/internal/api"
	"lcm/internal/config"
	"lcm/internal/mapper"
	"lcm/internal/problem"
	"lcm/internal/toolsvc"
	"lcm/natslog"
	"lcm/natsmicro"
)

func (n *Node) mapsDir() string { return filepath.Join(n.cfg.DataDir, "maps") }

// mapsConfigured: some model is there for rows.
func mapsConfigured(c config.Config) bool {
	return c.Map.Kind != "" || c.Summarizer.Kind != config.Extractive
}

// openMaps builds the keeper of map jobs, where it is a role; it returns
// whoever keeps them, and their streams where this node works on jobs.
func (n *Node) openMaps(ctx context.Context) (natsmicro.Maps, *natslog.Jobs, error) {
	if !n.roles.Mapper && !n.roles.MapWorkers {
		return natsmicro.NewMaps(n.conn), nil, nil
	}
	jobs, err := n.log.Jobs(ctx, natslog.JobOptions{
		Create: n.cfg.NATS == "" || n.roles == All(), Lease: time.Duration(n.cfg.Map.LeaseSeconds) * time.Second,
	})
	if err != nil || !n.roles.Mapper {
		return natsmicro.NewMaps(n.conn), jobs, err
	}
	keeper, err := n.openMapper(jobs)
	return keeper, jobs, err
}

// openMapWorkers works on rows where that is a role and there is a model.
func (n *Node) openMapWorkers(jobs *natslog.Jobs, keeper natsmicro.Maps) error {
	if !n.roles.MapWorkers || n.cfg.Map.Calls == 0 || !mapsConfigured(n.cfg) {
		return nil
	}
	model, err := n.modelForRows()
	if err != nil {
		return err
	}
	d := mapper.WorkerDeps{
		Events: jobs, Claims: jobs, Finished: keeper.Finished, Model: model, Prices: n.prices(), Now: time.Now, Logger: n.slog,
		Finish: n.metrics.MapRow,
	}
	if d.Agents, err = n.openAgents(keeper); err != nil {
		return err
	}
	w := mapper.NewWorkers(n.cfg.Map.Calls, d)
	n.metrics.WatchMaps(nil, w.Load)
	n.add("map workers", w.Run)
	return nil
}

func (n *Node) prices() mapper.Prices {
	return mapper.Prices{Input: n.cfg.Map.InputPrice, Output: n.cfg.Map.OutputPrice}
}

func (n *Node) openMapper(jobs *natslog.Jobs) (*mapper.Service, error) {
	var err error
	if n.mapStore, err = boltstore.OpenJobs(filepath.Join(n.mapsDir(), "jobs.bolt"), n.slog); err != nil {
		return nil, err
	}
	tools, err := grantableTools(new(toolsvc.Service))
	if err != nil {
		return nil, err
	}
	c := mapper.Config{Roots: n.cfg.Map.RootDirs(), Configured: mapsConfigured(n.cfg), Prices: n.prices(), Tools: toolNames(tools), KeepInputs: time.Duration(n.cfg.Map.KeepInputHours) * time.Hour}
	var grants mapper.Grants
	if n.roles.Toolsvc || n.cfg.Auth.GrantKey != "" { // else nobody could verify them
		grants = n.authority()
	}
	n.maps = mapper.New(c, mapper.Deps{
		Grants: grants,
		Events: jobs, Queue: jobs, Objects: jobs, Store: n.mapStore,
		NewSeen: func() (mapper.Seen, error) { return boltstore.NewSeen(n.mapsDir()) },
		Now:     time.Now, NewID: newID, Logger: n.slog, Finish: n.metrics.MapRow,
	})
	n.metrics.WatchMaps(n.maps.Load, nil)
	n.add("mapper", n.maps.Run)
	n.endpoint("lcm-mapper", func(o natsmicro.Options) (*natsmicro.Server, error) {
		return natsmicro.ServeMaps(n.conn, n.maps, o)
	})
	return n.maps, nil
}

func newID() string { return ulid.Make().String() }

// mapUpload keeps an input. It goes straight into the log's object store, also
// where the jobs are kept by another process.
func (n *Node) mapUpload(ctx context.Context, tenant string, r io.Reader) (*api.MapUploadOut, error) {
	return mapper.Upload(ctx, n.log.Objects(), tenant, newID(), r)
}

// modelForRows is the one of [map], else the summarizer's.
func (n *Node) modelForRows() (mapper.Model, error) {
	c := n.cfg.Map
	if c.Kind == "" {
		if n.models == nil {
			return nil, problem.New(problem.Invalid, "no model works on the rows of maps").WithHint("set map.kind, map.base_url and map.model")
		}
		return n.models, nil
	}
	var err error
	n.mapModel, err = n.chainOf("map", config.Provider{
		Kind: c.Kind, BaseURL: c.BaseURL, Model: c.Model, KeyEnv: c.KeyEnv, RequestsPerMinute: c.RequestsPerMinute,
		OutputField: c.OutputField, ReasoningTokens: c.ReasoningTokens,
	})
	return n.mapModel, err
}
