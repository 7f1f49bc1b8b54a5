package node

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lcm/bleveindex"
	"lcm/boltstore"
	"lcm/condense"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/condenser"
	"lcm/internal/ingest"
	"lcm/internal/problem"
	"lcm/internal/projector"
	"lcm/internal/scrub"
	"lcm/internal/toolsvc"
	"lcm/internal/verify"
	"lcm/natslog"
	"lcm/session"
	"lcm/transcript"
)

// reads is the whole read endpoint: of the projector in this process, or of
// projectors elsewhere.
type reads interface {
	toolsvc.Reads
	Lookup(context.Context, api.LookupRequest) (*api.LookupReply, error)
	Wait(context.Context, events.Position) (events.Position, error)
}

// projectorLoop names the projector among the loops.
const projectorLoop = "projector"

// openRoles builds the services, lowest first: each gets the others as values
// where they are in this process, and as NATS clients where they are not.
func (n *Node) openRoles(ctx context.Context) error {
	if err := n.openModels(); err != nil {
		return err
	}
	r, err := n.openReads()
	if err != nil {
		return err
	}
	n.reads = r
	w, err := n.openWrites(r)
	if err != nil {
		return err
	}
	c, err := n.openCondenser(r)
	if err != nil {
		return err
	}
	m, jobs, err := n.openMaps(ctx)
	if err != nil {
		return err
	}
	if n.roles.Toolsvc {
		if err := n.openTools(r, w, c, m); err != nil {
			return err
		}
	}
	if err := n.openMapWorkers(jobs, m); err != nil {
		return err
	}
	n.serveModels()
	n.shareSpending(ctx)
	return nil
}

func (n *Node) add(name string, run func(context.Context) error) {
	n.loops = append(n.loops, loop{name, run})
}

func (n *Node) openReads() (reads, error) {
	if !n.roles.Projector {
		n.metrics.Watch(n.log.LastSeq, nil)
		return n.remoteReads(), nil
	}
	parts, err := partitions(n.cfg.Projector.Partitions, n.log.Partitions())
	if err != nil {
		return nil, err
	}
	walk := func(ctx context.Context, o verify.Options) (*api.VerifyReply, error) {
		return verify.Run(ctx, n.log, o)
	}
	scrubber := scrub.New(scrub.Config{
		EventsPerSecond: n.cfg.Scrub.EventsPerSecond, Every: time.Duration(n.cfg.Scrub.EveryHours) * time.Hour,
		File: filepath.Join(filepath.Dir(n.rowsPath()), "scrub.json"),
	}, scrub.Deps{
		Verify: walk,
		Logger: n.slog,
	})
	n.projector, err = projector.New(projector.Config{Partitions: parts, Witness: n.witnessPath()}, projector.Deps{
		Log: whole{n.log}, Tasks: n.log,
		Stores:  boltstore.Files{Path: n.rowsPath(), Log: n.slog},
		Indexes: bleveindex.Files{Dir: n.indexDir(), Options: bleveindex.Options{Trigrams: n.cfg.Projector.Trigrams}},
		Due:     func(v *session.View) bool { return condense.Plan(v).Due() },
		Scrub:   scrubber.Status,
		Verify:  func(ctx context.Context) (*api.VerifyReply, error) { return walk(ctx, verify.Options{}) },
		Logger:  n.slog,
	})
	if err != nil {
		return nil, err
	}
	n.metrics.Watch(n.log.LastSeq, n.projector.Progress)
	n.add("scrubber", scrubber.Run)
	n.add(projectorLoop, n.projector.Run)
	n.serveReads(parts)
	return n.projector, nil
}

func (n *Node) openWrites(r reads) (toolsvc.Writes, error) {
	if !n.roles.Ingestor {
		return n.remoteWrites(), nil
	}
	defaults, err := n.cfg.SessionDefaults()
	if err != nil {
		return nil, err
	}
	n.ingest, err = ingest.New(ingest.Config{Defaults: defaults, Models: n.cfg.Models}, ingest.Deps{
		Log: n.log, Lookup: r.Lookup, Logger: n.slog, Answered: n.metrics.Appended,
		Observe: func(c ingest.Committed) { n.metrics.Committed(c.Events, c.Conflicts) },
		Name:    n.name, Forward: n.forward,
	})
	if err != nil {
		return nil, err
	}
	n.add("ingestor", n.ingest.Run)
	if n.reachable() {
		n.add("lease", func(ctx context.Context) error { return n.log.Lease(ctx, n.name, n.ingest.SetCommitter) })
	}
	n.add("inbox", func(ctx context.Context) error { return n.log.Inbox(ctx, n.ingest.HandleInbox) })
	n.serveWrites()
	return n.ingest, nil
}

func (n *Node) openCondenser(r reads) (toolsvc.Condenser, error) {
	if !n.roles.Condenser {
		return n.remoteCondenser(), nil
	}
	c := condenser.Config{Partitions: n.log.Partitions(), Concurrency: n.cfg.Condenser.Leaves}
	var err error
	n.condenser, err = condenser.New(c, condenser.Deps{Reads: r, Log: n.log, Summarizer: n.summarizer(), Logger: n.slog, Derived: n.metrics.Derived})
	if err != nil {
		return nil, err
	}
	n.add("condenser", func(ctx context.Context) error {
		return n.log.Tasks(ctx, n.cfg.Condenser.Workers, func(ctx context.Context, t api.Task) api.TaskResult {
			r := n.condenser.Handle(ctx, t)
			n.metrics.Task(r)
			return r
		})
	})
	n.serveCondenser()
	return n.condenser, nil
}

// CondenserWith is a condenser over this node's reads and log, beside its own if
// it has one, with another summariser and so many leaves at once.
func (n *Node) CondenserWith(s condense.Summarizer, leaves int) (*condenser.Service, error) {
	c := condenser.Config{Partitions: n.log.Partitions(), Concurrency: leaves}
	return condenser.New(c, condenser.Deps{Reads: n.reads, Log: n.log, Summarizer: s, Logger: n.slog})
}

func (n *Node) openTools(r reads, w toolsvc.Writes, c toolsvc.Condenser, m toolsvc.Maps) error {
	n.authority()
	cfg := toolsvc.DefaultConfig()
	cfg.DefaultTenant, cfg.ReadyLag = cmp.Or(n.cfg.Tenant, cfg.DefaultTenant), uint64(n.cfg.ReadyLag)
	var err error
	n.tools, err = toolsvc.New(cfg, toolsvc.Deps{
		Reads: r, Writes: w, Condenser: c, Log: n.log, Dead: n.log, Parse: ingest.Parse,
		Grants: n.grants, Reader: n.reader(), Logger: n.slog,
		Streams: n.stuck(),
		Verify:  verifier(n.log), Export: exporter(n.log), Maps: m, MapUpload: n.mapUpload, State: n.log.State, Models: n.modelStates, Observer: n.metrics,
		Import: func(ctx context.Context, src io.Reader, in api.ImportIn, progress func(api.ImportProgress)) ([]api.ImportReport, error) {
			settings, err := n.cfg.SessionDefaults()
			if err != nil {
				return nil, err
			}
			return ingest.Import(ctx, src, ingest.ImportOptions{
				Tenant: in.Tenant, Session: in.Session, Format: transcript.Format(in.Format), File: in.File,
				Settings: &settings, Progress: progress, Bury: n.log.Bury,
			}, w)
		},
	})
	if err != nil {
		return err
	}
	models, err := n.modelTools()
	if err != nil {
		return err
	}
	h, err := n.tools.Handler(n.slog, n.version, models)
	if err != nil {
		return err
	}
	n.inner = h
	n.serveTools()
	return nil
}

// partitions reads "0-7" or "0,3,8-11"; "" is all of them, as nil.
func partitions(spec string, total int) ([]int, error) {
	if spec == "" {
		return nil, nil
	}
	bad := func() error {
		return problem.New(problem.Invalid, "projector.partitions is %q", spec).WithHint("write 0-7 or 0,3,8-11, below %d", total)
	}
	seen := map[int]bool{}
	var out []int
	for _, part := range strings.Split(spec, ",") {
		a, b, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			b = a
		}
		first, err1 := strconv.Atoi(a)
		last, err2 := strconv.Atoi(b)
		if err1 != nil || err2 != nil || first < 0 || first > last || last >= total {
			return nil, bad()
		}
		for p := first; p <= last; p++ {
			if seen[p] {
				return nil, bad()
			}
			seen[p] = true
			out = append(out, p)
		}
	}
	return out, nil
}

// stuck asks the embedded server why its streams take nothing; nil without one.
func (n *Node) stuck() func() string {
	if n.embedded == nil {
		return nil
	}
	return n.embedded.Stuck
}

// whole is the log as a projector sees it, in whole events: it ends behind the
// last one.
type whole struct{ *natslog.Log }

func (w whole) LastSeq(ctx context.Context) (uint64, error) { return w.End(ctx) }
