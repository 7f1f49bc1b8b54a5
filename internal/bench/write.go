package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/await"
)

// someTurns is a file of turns, from turn first on.
func someTurns(first, turns int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	return turnFile(first, turns, func(i int) string { return text(rng, i) })
}

func turnFile(first, turns int, text func(int) string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for i := first; i < first+turns; i++ {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		_ = enc.Encode(map[string]string{"id": fmt.Sprint("m", i), "role": role, "content": text(i)}) // strings: cannot fail
	}
	return buf.Bytes()
}

func importOf(session string) api.ImportIn {
	return api.ImportIn{Scope: api.Scope{Session: session}, File: session + ".jsonl", Format: "lcm"}
}

// importTurns feeds turns through the import path of the node.
func (r *rig) importTurns(ctx context.Context, session string, turns int) (time.Duration, error) {
	return r.importMore(ctx, session, 0, turns)
}

// importMore imports turns behind the first ones.
func (r *rig) importMore(ctx context.Context, session string, first, turns int) (time.Duration, error) {
	return r.importFile(ctx, session, someTurns(first, turns), turns)
}

// importFile imports a file of so many new turns.
func (r *rig) importFile(ctx context.Context, session string, file []byte, turns int) (time.Duration, error) {
	start := time.Now()
	reports, err := r.n.Tools().Import(ctx, importOf(session), bytes.NewReader(file), nil)
	if err != nil {
		return 0, err
	}
	if len(reports) != 1 || reports[0].Appended != turns {
		return 0, fmt.Errorf("import of %d turns reported %+v", turns, reports)
	}
	return time.Since(start), nil
}

// searchable waits until rows and index have caught up with the log.
func (r *rig) searchable(ctx context.Context) error {
	for {
		st, err := r.n.Tools().Status(ctx, api.StatusIn{})
		if err != nil || st.Lag == 0 && st.IndexLag == 0 {
			return err
		}
		if err := await.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// settle waits until rows have caught up with the log.
func (r *rig) settle(ctx context.Context) error {
	_, err := r.n.Tools().Sessions(ctx, api.SessionsIn{Scope: api.Scope{Fresh: true}, Limit: 1})
	return err
}

// ingestBench imports a file; the index follows when it can.
func ingestBench(ctx context.Context, r *rig) (Result, error) {
	return importBench(ctx, r, "import, parsed, counted, durable, in the rows (SyncAlways)", r.settle)
}

// ingestLiveBench counts until everything can be searched.
func ingestLiveBench(ctx context.Context, r *rig) (Result, error) {
	return importBench(ctx, r, "import, durable, in the rows and in the index", r.searchable)
}

// importBench measures an import until done says so.
func importBench(ctx context.Context, r *rig, what string, done func(context.Context) error) (Result, error) {
	r.say("importing %d turns of %d bytes", r.Turns, turnBytes)
	acked, err := r.importTurns(ctx, "bench", r.Turns)
	if err != nil {
		return Result{}, err
	}
	ended := time.Now()
	st, err := r.n.Tools().Status(ctx, api.StatusIn{})
	if err != nil {
		return Result{}, err
	}
	if err := done(ctx); err != nil {
		return Result{}, err
	}
	took := acked + time.Since(ended)
	if err := r.idle(ctx); err != nil {
		return Result{}, err
	}
	r.say("raw atomic batches")
	raw, err := r.rawBatches(ctx, r.Turns)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: Figure{what, rate(r.Turns, took), "turns/s"},
		Raw:  Figure{"raw atomic batches of 1,000, same payloads", rate(r.Turns, raw), "msgs/s"},
		More: []Figure{
			{"acknowledged", rate(r.Turns, acked), "turns/s"},
			{"rows behind when the import ended", float64(st.Lag), "events"},
			{"index behind when the import ended", float64(st.IndexLag), "events"},
		},
	}, nil
}

// reimportBench imports a file that is known already.
func reimportBench(ctx context.Context, r *rig) (Result, error) {
	r.say("importing %d turns of %d bytes", r.Turns, turnBytes)
	if _, err := r.importTurns(ctx, "bench", r.Turns); err != nil {
		return Result{}, err
	}
	if err := r.idle(ctx); err != nil {
		return Result{}, err
	}
	before, err := r.n.Tools().Status(ctx, api.StatusIn{})
	if err != nil {
		return Result{}, err
	}
	file := someTurns(0, r.Turns)
	heap := heapBytes()
	r.say("importing them again")
	start := time.Now()
	reports, err := r.n.Tools().Import(ctx, importOf("bench"), bytes.NewReader(file), nil)
	if err != nil {
		return Result{}, err
	}
	took := time.Since(start)
	grown := heapBytes() - heap
	if len(reports) != 1 || reports[0].Duplicates != r.Turns || reports[0].Appended != 0 {
		return Result{}, fmt.Errorf("import of %d known turns reported %+v", r.Turns, reports)
	}
	after, err := r.n.Tools().Status(ctx, api.StatusIn{})
	if err != nil {
		return Result{}, err
	}
	if after.LogSeq != before.LogSeq {
		return Result{}, fmt.Errorf("an import of known turns wrote %d events", after.LogSeq-before.LogSeq)
	}
	raw, err := r.rawBatches(ctx, r.Turns)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: Figure{"import of known turns: all recognised, none written", rate(r.Turns, took), "turns/s"},
		Raw:  Figure{"raw atomic batches of 1,000, same payloads", rate(r.Turns, raw), "msgs/s"},
		More: []Figure{{"heap grown by it", float64(grown) / (1 << 20), "MiB"}},
	}, nil
}

// heapBytes in use after a collection.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// appenders is how many sessions append at once.
const appenders = 256

// appendBench has many sessions append one turn at a time, beside a node's
// other roles.
func appendBench(ctx context.Context, r *rig) (Result, error) {
	return r.live(ctx, appenders)
}

// rounds of a live benchmark, ours and raw in turns: the best of each counts,
// on a machine that others use.
const rounds = 3

// live measures sessions that append, each acknowledged before the next one.
func (r *rig) live(ctx context.Context, sessions int) (Result, error) {
	res := Result{
		Ours: Figure{Name: fmt.Sprintf("%d sessions, one turn at a time, durable", sessions), Unit: "turns/s"},
		Raw:  Figure{Name: "raw synchronous publish", Unit: "msgs/s"},
	}
	texts := someTexts()
	turns := r.Turns / rounds / sessions * sessions
	for round := range rounds {
		r.say("round %d: %d sessions append %d turns, each acknowledged durably", round+1, sessions, turns)
		cpu := cpuTime()
		took, waits, err := concurrently(ctx, sessions, turns/sessions, func(ctx context.Context, s, i int) error {
			return appendOne(ctx, r.n.Writes(), fmt.Sprintf("s%d-%d", round, s), i, texts)
		})
		if err != nil {
			return Result{}, err
		}
		cpu = cpuTime() - cpu
		st, err := r.n.Tools().Status(ctx, api.StatusIn{})
		if err != nil {
			return Result{}, err
		}
		if ours := rate(turns, took); ours > res.Ours.Value {
			res.Ours.Value = ours
			res.More = []Figure{
				{"acknowledged, p50", quantile(waits, 0.50), "ms"},
				{"acknowledged, p99", quantile(waits, 0.99), "ms"},
				{"processor time, all roles", float64(cpu.Microseconds()) / float64(turns), "µs/turn"},
				{"rows behind when they ended", float64(st.Lag), "events"},
				{"index behind when they ended", float64(st.IndexLag), "events"},
			}
		}
		if err := r.idle(ctx); err != nil {
			return Result{}, err
		}
		r.say("raw synchronous publishes")
		raw, _, err := r.rawSync(ctx, 1, rawPublishes)
		if err != nil {
			return Result{}, err
		}
		res.Raw.Value = max(res.Raw.Value, rate(rawPublishes, raw))
	}
	return res, nil
}

// rawPublishes of one round.
const rawPublishes = 5_000

// loneBench has one session append one turn at a time.
func loneBench(ctx context.Context, r *rig) (Result, error) {
	texts := someTexts()
	r.say("one session appends %d turns, each acknowledged durably", r.Turns)
	_, waits, err := concurrently(ctx, 1, r.Turns, func(ctx context.Context, _, i int) error {
		return appendOne(ctx, r.n.Writes(), "lone", i, texts)
	})
	if err != nil {
		return Result{}, err
	}
	if err := r.idle(ctx); err != nil {
		return Result{}, err
	}
	r.say("raw synchronous publishes")
	_, raw, err := r.rawSync(ctx, 1, r.Turns)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: Figure{"one session, one turn at a time, durable, p50", quantile(waits, 0.50), "ms"},
		Raw:  Figure{"one publisher, raw synchronous publish, p50", quantile(raw, 0.50), "ms"},
		More: []Figure{
			{"append, p99", quantile(waits, 0.99), "ms"},
			{"raw, p99", quantile(raw, 0.99), "ms"},
		},
	}, nil
}

// cpuTime this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func someTexts() []string {
	rng := rand.New(rand.NewPCG(3, 4))
	texts := make([]string, 256)
	for i := range texts {
		texts[i] = text(rng, i)
	}
	return texts
}

// writes is an append path.
type writes interface {
	Append(context.Context, api.AppendRequest) (*api.AppendReply, error)
}

// appendOne appends turn i of a session.
func appendOne(ctx context.Context, w writes, session string, i int, texts []string) error {
	t := api.Turn{Turn: events.TurnAppended{ID: fmt.Sprint("m", i), Role: events.RoleUser, Text: texts[i%len(texts)]}}
	out, err := w.Append(ctx, api.AppendRequest{
		Ref: events.Ref{Tenant: "default", Session: session}, Writes: []api.Write{{Turn: &t}},
	})
	if err == nil && (out.Written[0].Error != "" || out.Written[0].Duplicate) {
		err = fmt.Errorf("append: %+v", out.Written[0])
	}
	return err
}

const (
	// memorySessions come one after the other, memoryWriters at a time.
	memorySessions = 10_000
	memoryWriters  = 64
	// memoryTurns of one append: what an agent's step brings.
	memoryTurns = 10
)

// memoryBench appends to ever new sessions: what is remembered of the old ones
// must not grow. The raw figure is this process's own, a fifth of the way in.
func memoryBench(ctx context.Context, r *rig) (Result, error) {
	steps := max(1, r.Turns/memorySessions/memoryTurns)
	texts := someTexts()
	var heaps []int64
	start := time.Now()
	for fifth := range 5 {
		r.say("turns %d of %d", fifth*r.Turns/5, r.Turns)
		each := memorySessions / 5 / memoryWriters
		_, _, err := concurrently(ctx, memoryWriters, each, func(ctx context.Context, w, i int) error {
			session := fmt.Sprintf("s%d-%d-%d", fifth, w, i)
			for n := range steps {
				if err := appendSome(ctx, r.n.Writes(), session, n*memoryTurns, texts); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return Result{}, err
		}
		if err := r.settle(ctx); err != nil {
			return Result{}, err
		}
		heaps = append(heaps, heapBytes())
	}
	const mib = 1 << 20
	turns := 5 * (memorySessions / 5 / memoryWriters) * memoryWriters * steps * memoryTurns
	return Result{
		Ours: Figure{fmt.Sprintf("heap after %d turns in %d sessions, all roles", turns, turns/steps/memoryTurns), float64(heaps[4]) / mib, "MiB"},
		Raw:  Figure{"heap after a fifth of them", float64(heaps[0]) / mib, "MiB"},
		More: []Figure{
			{"heap after three fifths", float64(heaps[2]) / mib, "MiB"},
			{"turns appended, rows up to date", rate(turns, time.Since(start)), "turns/s"},
		},
	}, nil
}

// appendSome appends memoryTurns turns from turn i on.
func appendSome(ctx context.Context, w writes, session string, i int, texts []string) error {
	q := api.AppendRequest{Ref: events.Ref{Tenant: "default", Session: session}}
	for n := range memoryTurns {
		t := events.TurnAppended{ID: fmt.Sprint("m", i+n), Role: events.RoleUser, Text: texts[(i+n)%len(texts)]}
		q.Writes = append(q.Writes, api.Write{Turn: &api.Turn{Turn: t}})
	}
	out, err := w.Append(ctx, q)
	if err == nil && out.Written[memoryTurns-1].Error != "" {
		err = fmt.Errorf("append: %+v", out.Written[memoryTurns-1])
	}
	return err
}
