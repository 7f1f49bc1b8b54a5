// Package deploy_test proves that the NATS configuration which is shipped lets
// every role do its job, and nobody anything else.
package deploy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"lcm/events"
	"lcm/grant"
	"lcm/internal/api"
	"lcm/mapjob"
	"lcm/natslog"
	"lcm/natsmicro"
)

var users = []string{"operator", "ingestor", "projector", "condenser", "toolsvc", "mapper", "mapworker", "agent"}

func password(user string) string { return "p-" + user }

// process reads a configuration as the server does.
func process(t *testing.T, file string) *server.Options {
	t.Helper()
	for _, u := range users {
		t.Setenv("LCM_NATS_"+strings.ToUpper(u)+"_PASSWORD", password(u))
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// cluster is a server with the shipped configuration and the streams.
type cluster struct {
	url string
	log *natslog.Log // the operator's
}

func start(t *testing.T) cluster {
	t.Helper()
	o := process(t, "nats/nats-server.conf")
	o.Port, o.HTTPPort, o.StoreDir, o.NoSigs, o.NoLog = server.RANDOM_PORT, 0, t.TempDir(), true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	c := cluster{url: s.ClientURL()}
	c.log = c.open(t, "operator", natslog.Options{Create: true})
	_, err = c.log.Jobs(ctx(t), natslog.JobOptions{Create: true})
	must(t, err)
	return c
}

func (c cluster) connect(t *testing.T, user string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(c.url, nats.UserInfo(user, password(user)), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // not to stderr: LastError is asked
	if err != nil {
		t.Fatalf("%s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func (c cluster) open(t *testing.T, user string, o natslog.Options) *natslog.Log {
	t.Helper()
	return openOn(t, c.connect(t, user), o)
}

func openOn(t *testing.T, nc *nats.Conn, o natslog.Options) *natslog.Log {
	t.Helper()
	l, err := natslog.Open(ctx(t), nc, o)
	if err != nil {
		t.Fatal(err)
	}
	clean(t, nc)
	return l
}

// clean fails when the server refused something that its client does not wait
// for, such as a subscription for discovery.
func clean(t *testing.T, nc *nats.Conn) {
	t.Helper()
	if err := errors.Join(nc.Flush(), nc.LastError()); err != nil {
		t.Fatal(err)
	}
}

func ctx(t *testing.T) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	t.Cleanup(cancel)
	return c
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestSettings(t *testing.T) {
	t.Setenv("LCM_NATS_NAME", "n1")
	t.Setenv("LCM_NATS_ROUTE_PASSWORD", "p-route")
	t.Setenv("LCM_NATS_ROUTES", `["nats://route:p-route@n1:6222", "nats://route:p-route@n2:6222", "nats://route:p-route@n3:6222"]`)
	tests := []struct {
		file, host string
		routes     int
	}{
		{"nats/nats-server.conf", "127.0.0.1", 0},
		{"nats/cluster.conf", "0.0.0.0", 3},
	}
	for _, tt := range tests {
		o := process(t, tt.file)
		if !o.SyncAlways || o.MaxPayload != 8<<20 || o.Host != tt.host || o.HTTPHost != "127.0.0.1" || len(o.Routes) != tt.routes || len(o.Users) != len(users) {
			t.Errorf("%s: sync always %t, max payload %d, listens on %s, monitors on %s, %d routes, %d users",
				tt.file, o.SyncAlways, o.MaxPayload, o.Host, o.HTTPHost, len(o.Routes), len(o.Users))
		}
	}
}

func TestNobodyWithoutPassword(t *testing.T) {
	c := start(t)
	for _, o := range [][]nats.Option{nil, {nats.UserInfo("agent", "guess")}, {nats.UserInfo("operator", "")}} {
		if _, err := nats.Connect(c.url, o...); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("err = %v", err)
		}
	}
}

// TestPermissions is the whole table: who may publish or subscribe to what.
// Whoever is not named must be refused.
func TestPermissions(t *testing.T) {
	type row struct{ do, subject, who string }
	rows := []row{
		{"pub", "lcm.ev.0.default.s", "ingestor"},
		{"pub", "lcm.dag.0.default.s", "condenser"},
		{"pub", "lcm.in.default.s", "agent"},
		{"pub", "lcm.in.acme.s", ""},
		{"pub", "lcm.in.0.default.s", ""},
		{"pub", "lcm.task.urgent.default.s", "projector toolsvc"},
		{"pub", "lcm.wake.task", "projector toolsvc"},
		{"pub", "lcm.dead.h.default.s", "ingestor toolsvc"},
		{"pub", "lcm.q.0.plan", "ingestor condenser toolsvc"},
		{"pub", "lcm.w.append", "toolsvc"},
		{"pub", "lcm.c.condense", "toolsvc"},
		{"pub", "lcm.t.default.show", "agent"},
		{"pub", "lcm.t.acme.show", ""},
		{"pub", "lcm.t.show", ""},
		{"pub", "lcm.t.default.rebuild", ""},
		{"pub", "$KV.LCM_GRANTS.01ROOT", "toolsvc mapper"},
		{"pub", "$JS.API.DIRECT.GET.KV_LCM_GRANTS.$KV.LCM_GRANTS.01ROOT", "toolsvc mapper"},
		{"pub", "$JS.API.STREAM.CREATE.KV_LCM_GRANTS", "toolsvc mapper"},
		{"pub", "$JS.API.STREAM.UPDATE.KV_LCM_GRANTS", ""},
		{"pub", "$JS.API.STREAM.DELETE.KV_LCM_GRANTS", ""},
		{"pub", "$JS.API.STREAM.PURGE.KV_LCM_GRANTS", ""},
		{"pub", "$KV.LCM_SPENT.node1.61", "condenser toolsvc mapper mapworker"},
		{"pub", "$JS.API.STREAM.CREATE.KV_LCM_SPENT", "condenser toolsvc mapper mapworker"},
		{"pub", "$JS.API.CONSUMER.CREATE.KV_LCM_SPENT.a.$KV.LCM_SPENT.>", "condenser toolsvc mapper mapworker"},
		{"pub", "$JS.API.STREAM.PURGE.KV_LCM_SPENT", ""},
		{"pub", "$JS.API.STREAM.DELETE.KV_LCM_SPENT", ""},
		{"pub", "lcm.t.default.doctor", ""},
		{"pub", "lcm.t.default.dead", ""},
		{"pub", "lcm.t.default.dead-retry", ""},
		{"pub", "_INBOX.x", "ingestor projector condenser toolsvc mapper mapworker"},
		{"pub", "$SRV.PING", ""},
		{"sub", "lcm.q.0.plan", "projector"},
		{"sub", "lcm.w.append", "ingestor"},
		{"sub", "lcm.c.condense", "condenser"},
		{"sub", "lcm.t.default.show", "toolsvc"},
		{"sub", "lcm.wake.task", "condenser"},
		{"sub", "$SRV.PING", "ingestor projector condenser toolsvc mapper"},
		{"sub", "_INBOX.>", "ingestor projector condenser toolsvc mapper mapworker agent"},
		{"sub", ">", ""},
		{"sub", "lcm.>", ""},
		{"sub", "lcm.ev.>", ""},
		{"sub", "lcm.dag.>", ""},
		{"sub", "lcm.in.>", ""},
		{"sub", "lcm.in.acme.s", ""},
		{"sub", "lcm.dead.>", ""},
		{"sub", "_R_.>", ""},
		{"sub", "$JS.>", ""},
		{"pub", "$JS.API.DIRECT.GET.LCM", "projector"},
		{"pub", "$JS.API.DIRECT.GET.LCM.lcm.ev.0.default.s", "ingestor"},
		{"pub", "$JS.API.DIRECT.GET.LCM.lcm.dag.0.default.s", "condenser"},
		{"pub", "$JS.API.DIRECT.GET.LCM_IN", ""},
		{"pub", "$JS.API.DIRECT.GET.LCM_IN.lcm.in.0.default.s", ""},
		{"pub", "$JS.API.DIRECT.GET.LCM_DEAD", "toolsvc"},
		{"pub", "$JS.API.STREAM.MSG.DELETE.LCM_DEAD", "toolsvc"},
		{"pub", "$JS.API.STREAM.CREATE.LCM_TASK", "ingestor projector condenser toolsvc mapper mapworker"},
		{"pub", "$JS.API.STREAM.CREATE.LCM", ""},
		{"pub", "$JS.API.STREAM.CREATE.LCM_IN", ""},
		{"pub", "$JS.API.STREAM.CREATE.OTHER", ""},
		{"pub", "$JS.API.CONSUMER.DELETE.LCM.c", "projector"},
		{"pub", "$JS.API.CONSUMER.DELETE.LCM_IN.ingest-0", ""},
		{"pub", "lcm.job.default.j", "mapper mapworker"},
		{"pub", "lcm.row.default.j", "mapper"},
		{"pub", "lcm.wake.row", "mapper"},
		{"pub", "lcm.m.run", "toolsvc"},
		{"pub", "lcm.m.finished", "mapworker"},
		{"pub", "lcm.m.agent-open", "mapworker"},
		{"pub", "lcm.m.agent-pay", "mapworker"},
		{"pub", "lcm.t.default.grep", "mapper mapworker agent"},
		{"pub", "lcm.t.acme.expand", "mapper mapworker"},
		{"pub", "lcm.t.acme.append", ""},
		{"pub", "lcm.t.acme.grant", ""},
		{"pub", "lcm.t.acme.llm_map", ""},
		{"pub", "$O.LCM_MAP.C.x", "toolsvc mapper"},
		{"pub", "$JS.API.DIRECT.GET.LCM_JOB", "mapper mapworker"},
		{"pub", "$JS.API.DIRECT.GET.OBJ_LCM_MAP", "toolsvc mapper"},
		{"pub", "$JS.API.STREAM.CREATE.OBJ_LCM_MAP", "toolsvc mapper"},
		{"pub", "$JS.API.STREAM.CREATE.LCM_ROW", "mapper mapworker"},
		{"pub", "$JS.API.STREAM.CREATE.LCM_JOB", ""},
		{"pub", "$JS.API.STREAM.PURGE.LCM_ROW", "mapper"},
		{"pub", "$JS.API.STREAM.PURGE.OBJ_LCM_MAP", "mapper"},
		{"pub", "$JS.API.STREAM.DELETE.LCM_ROW", ""},
		{"pub", "$JS.API.STREAM.DELETE.OBJ_LCM_MAP", ""},
		{"pub", "$JS.API.STREAM.UPDATE.OBJ_LCM_MAP", ""},
		{"pub", "$JS.API.CONSUMER.CREATE.LCM_ROW.j", "mapper"},
		{"pub", "$JS.API.CONSUMER.DELETE.LCM_ROW.j", "mapper"},
		{"pub", "$JS.API.CONSUMER.LIST.LCM_ROW", "mapper mapworker"},
		{"pub", "$JS.API.CONSUMER.MSG.NEXT.LCM_ROW.j", "mapper mapworker"},
		{"pub", "$JS.ACK.LCM_ROW.j.1.1.1.1.0", "mapper mapworker"},
		{"sub", "lcm.m.run", "mapper"},
		{"sub", "lcm.c.models", "condenser mapper mapworker"},
		{"sub", "lcm.wake.row", "mapper mapworker"},
		{"sub", "lcm.job.>", ""},
		{"sub", "lcm.row.>", ""},
		{"sub", "$O.>", ""},
		{"pub", "$JS.ACK.LCM_IN.ingest-0.1.1.1.1.0", "ingestor"},
		{"pub", "$JS.ACK.LCM_TASK.condense-urgent.1.1.1.1.0", "condenser"},
	}
	for stream, consumer := range map[string]string{natslog.StreamLog: "projector", natslog.StreamInbox: "ingestor", natslog.StreamTasks: "condenser", natslog.StreamDead: "", natslog.StreamJobs: "mapper"} {
		rows = append(
			rows,
			row{"pub", "$JS.API.STREAM.INFO." + stream, "ingestor projector condenser toolsvc mapper mapworker"},
			row{"pub", "$JS.API.CONSUMER.CREATE." + stream + ".c", consumer},
			row{"pub", "$JS.API.CONSUMER.MSG.NEXT." + stream + ".c", consumer},
		)
		for _, verb := range []string{"UPDATE", "DELETE", "PURGE", "RESTORE", "SNAPSHOT", "MSG.GET"} {
			rows = append(rows, row{"pub", "$JS.API.STREAM." + verb + "." + stream, ""})
		}
		if stream != natslog.StreamDead {
			rows = append(rows, row{"pub", "$JS.API.STREAM.MSG.DELETE." + stream, ""})
		}
	}
	c := start(t)
	for _, r := range rows {
		for _, user := range users[1:] {
			nc := c.connect(t, user)
			var err error
			if r.do == "sub" {
				_, err = nc.SubscribeSync(r.subject)
			} else {
				err = nc.Publish(r.subject, nil)
			}
			must(t, err, nc.Flush())
			refused := errors.Is(nc.LastError(), nats.ErrPermissionViolation)
			if want := !slices.Contains(strings.Fields(r.who), user); refused != want {
				t.Errorf("%s %s %s: refused %t, want %t (%v)", user, r.do, r.subject, refused, want, nc.LastError())
			}
			nc.Close()
		}
	}
	// None of the attempts had an effect on the streams.
	for _, s := range []string{natslog.StreamLog, natslog.StreamInbox, natslog.StreamDead} {
		js, err := jetstream.New(c.connect(t, "operator"))
		must(t, err)
		_, err = js.Stream(ctx(t), s)
		must(t, err)
	}
}

// TestAgentsReachNothingThroughReplies: the server and the services answer in
// their own name wherever a request says.
func TestAgentsReachNothingThroughReplies(t *testing.T) {
	c := start(t)
	agent, tools := c.connect(t, "agent"), c.connect(t, "toolsvc")
	_, err := tools.Subscribe("lcm.t.default.show", func(m *nats.Msg) { _ = m.Respond([]byte("{}")) })
	must(t, err)
	rebuild, err := tools.SubscribeSync("lcm.t.default.rebuild")
	must(t, err, tools.Flush())

	others, err := agent.SubscribeSync("_INBOX.>")
	must(t, err, agent.Flush())
	_, err = c.log.LastSeq(ctx(t)) // an answer to somebody else's inbox
	must(t, err, agent.Flush())
	if n, _, _ := others.Pending(); n != 0 {
		t.Errorf("the agent read %d answers to the operator", n)
	}
	must(t, others.Unsubscribe())

	for _, reply := range []string{"lcm.ev.0.default.s", "lcm.dag.0.default.s", "lcm.w.append", "lcm.in.acme.s", "lcm.t.default.rebuild"} {
		must(t, agent.PublishRequest("lcm.in.default.s", reply, []byte("x")))
		must(t, agent.PublishRequest("lcm.t.default.show", reply, []byte("{}")))
	}
	// These are answered behind those.
	_, err = agent.RequestWithContext(ctx(t), "lcm.in.default.s", []byte("x"))
	must(t, err)
	_, err = agent.RequestWithContext(ctx(t), "lcm.t.default.show", []byte("{}"))
	must(t, err, tools.Flush())
	if n, _, _ := rebuild.Pending(); n != 0 {
		t.Errorf("%d requests to rebuild", n)
	}
	if last, err := c.log.LastSeq(ctx(t)); err != nil || last != 0 {
		t.Errorf("the log holds %d events, %v", last, err)
	}
	js, err := jetstream.New(c.connect(t, "operator"))
	must(t, err)
	in, err := js.Stream(ctx(t), natslog.StreamInbox)
	must(t, err)
	if n := in.CachedInfo().State.NumSubjects; n != 1 {
		t.Errorf("the inbox holds %d subjects, want the agent's one", n)
	}
}

var ref = events.Ref{Tenant: "default", Session: "s ✓"}

// batch makes n events of one lane.
func batch(lane events.Lane, n int, expect uint64) []api.Append {
	out := make([]api.Append, n)
	for i := range out {
		out[i] = api.Append{Expect: expect, Message: events.Message{
			Subject: events.Subject(lane, ref, events.DefaultPartitions),
			Header:  events.Header{events.HeaderType: "Test"}, Data: []byte(fmt.Sprint(i)),
		}}
	}
	return out
}

// commit stores events alone and in an atomic batch, and meets a conflict.
func commit(t *testing.T, l *natslog.Log, lane events.Lane) {
	t.Helper()
	one, err := l.Commit(ctx(t), batch(lane, 1, 0))
	must(t, err)
	_, err = l.Commit(ctx(t), batch(lane, 20, one[0]))
	must(t, err)
	other := events.Subject(lane, events.Ref{Tenant: "default", Session: "other " + string(lane)}, events.DefaultPartitions)
	mixed := append(batch(lane, 20, one[0]), api.Append{Message: events.Message{Subject: other, Header: events.Header{events.HeaderType: "Test"}}})
	seqs, err := l.Commit(ctx(t), mixed)
	var conflict *api.ConflictError
	if !errors.As(err, &conflict) || seqs[20] == 0 {
		t.Errorf("conflict: %v, %v", err, seqs)
	}
}

// until runs a loop of the log and ends it when done is closed.
func until(t *testing.T, done <-chan struct{}, run func(context.Context) error) {
	t.Helper()
	c, cancel := context.WithCancel(ctx(t))
	defer cancel()
	go func() {
		select {
		case <-done:
		case <-c.Done():
		}
		cancel()
	}()
	if err := run(c); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// What the services answer here does not matter, only that it arrives.
type (
	reads     struct{ natsmicro.Reads }
	writes    struct{ natsmicro.Writes }
	condenser struct{ natsmicro.Condenser }
	keeper    struct{ natsmicro.Maps }
)

func (reads) Lookup(context.Context, api.LookupRequest) (*api.LookupReply, error) {
	return &api.LookupReply{}, nil
}

func (writes) Append(context.Context, api.AppendRequest) (*api.AppendReply, error) {
	return &api.AppendReply{}, nil
}

func (condenser) Condense(context.Context, events.Ref, events.Position) (*api.CondenseOut, error) {
	return &api.CondenseOut{}, nil
}

func (keeper) MapRun(context.Context, api.MapRunIn) (*api.MapOut, error) { return &api.MapOut{}, nil }

func (keeper) Finished(context.Context, mapjob.Ref, uint64, int) (bool, error) { return true, nil }

func (keeper) AgentOpen(context.Context, api.AgentOpenIn) (*api.AgentGrant, error) {
	return &api.AgentGrant{}, nil
}
func (keeper) AgentPay(context.Context, api.AgentPayIn) error { return nil }
func (keeper) AgentClose(context.Context, grant.Claims) error { return nil }

var job = mapjob.Ref{Tenant: "default", Job: "j"}

func openJobs(t *testing.T, nc *nats.Conn) *natslog.Jobs {
	t.Helper()
	j, err := openOn(t, nc, natslog.Options{}).Jobs(ctx(t), natslog.JobOptions{})
	must(t, err)
	return j
}

// TestRolesDoTheirJobs makes the calls of each role, in the order in which
// they need each other.
func TestRolesDoTheirJobs(t *testing.T) {
	c := start(t)
	serve := func(t *testing.T, name, user string, f func(*nats.Conn, natsmicro.Options) (*natsmicro.Server, error)) {
		t.Helper()
		nc := c.connect(t, user)
		s, err := f(nc, natsmicro.Options{Name: name, Version: "0.0.0"})
		must(t, err)
		clean(t, nc)
		t.Cleanup(func() { _ = s.Stop(context.Background()) })
	}
	large := strings.Repeat("x", 2<<20) // comes in several messages
	partitions := make([]int, events.DefaultPartitions)
	for p := range partitions {
		partitions[p] = p
	}
	serve(t, "projector", "projector", func(nc *nats.Conn, o natsmicro.Options) (*natsmicro.Server, error) {
		return natsmicro.ServeReads(nc, partitions, reads{}, o)
	})
	serve(t, "ingestor", "ingestor", func(nc *nats.Conn, o natsmicro.Options) (*natsmicro.Server, error) {
		return natsmicro.ServeWrites(nc, writes{}, o)
	})
	serve(t, "condenser", "condenser", func(nc *nats.Conn, o natsmicro.Options) (*natsmicro.Server, error) {
		return natsmicro.ServeCondenser(nc, condenser{}, o)
	})
	serve(t, "toolsvc", "toolsvc", func(nc *nats.Conn, o natsmicro.Options) (*natsmicro.Server, error) {
		return natsmicro.ServeTools(nc, []natsmicro.Tool{{
			Name: "show", Schema: json.RawMessage(`{}`),
			Handle: func(context.Context, string, json.RawMessage) (any, error) { return large, nil },
		}}, o)
	})

	serve(t, "mapper", "mapper", func(nc *nats.Conn, o natsmicro.Options) (*natsmicro.Server, error) {
		return natsmicro.ServeMaps(nc, keeper{}, o)
	})

	jobs := []struct {
		user string
		job  string
		do   func(t *testing.T, nc *nats.Conn)
	}{
		{"agent", "publishes a turn to its inbox", func(t *testing.T, nc *nats.Conn) {
			js, err := jetstream.New(nc)
			must(t, err)
			ack, err := js.Publish(ctx(t), events.InboxSubject(ref), []byte("hello"), jetstream.WithExpectStream(natslog.StreamInbox))
			must(t, err)
			if ack.Sequence != 1 {
				t.Errorf("ack %+v", ack)
			}
		}},
		{"agent", "calls a tool", func(t *testing.T, nc *nats.Conn) {
			var got string
			must(t, natsmicro.NewTools(nc, "default").Call(ctx(t), "show", struct{}{}, &got))
			if got != large {
				t.Errorf("%d bytes arrived", len(got))
			}
		}},
		{"ingestor", "takes turns from the inbox and buries bad ones", func(t *testing.T, nc *nats.Conn) {
			l, done := openOn(t, nc, natslog.Options{}), make(chan struct{})
			until(t, done, func(c context.Context) error {
				return l.Inbox(c, func(c context.Context, m api.InboxMessage) error {
					defer close(done)
					return l.Bury(c, api.DeadLetter{Ref: m.Ref, Origin: "inbox", Reason: "test", Body: m.Data})
				})
			})
		}},
		{"ingestor", "commits turns", func(t *testing.T, nc *nats.Conn) {
			commit(t, openOn(t, nc, natslog.Options{}), events.LaneTimeline)
		}},
		{"ingestor", "looks ids up", func(t *testing.T, nc *nats.Conn) {
			_, err := natsmicro.NewReads(nc, events.DefaultPartitions).Lookup(ctx(t), api.LookupRequest{Ref: ref})
			must(t, err)
		}},
		{"projector", "follows the log", func(t *testing.T, nc *nats.Conn) {
			l, done, n := openOn(t, nc, natslog.Options{}), make(chan struct{}), 0
			until(t, done, func(c context.Context) error {
				return l.Follow(c, 0, func(_ context.Context, r []events.Record) error {
					if n += len(r); n == 22 {
						close(done)
					}
					return nil
				})
			})
			_, err := l.Read(ctx(t), 22)
			must(t, err)
		}},
		{"projector", "dispatches tasks, also into a stream that went with a restart", func(t *testing.T, nc *nats.Conn) {
			l := openOn(t, nc, natslog.Options{})
			js, err := jetstream.New(c.connect(t, "operator"))
			must(t, err, js.DeleteStream(ctx(t), natslog.StreamTasks))
			must(t, l.PublishTask(ctx(t), events.Normal, ref, events.Position{Seq: 22}))
		}},
		{"condenser", "takes tasks", func(t *testing.T, nc *nats.Conn) {
			l, done := openOn(t, nc, natslog.Options{}), make(chan struct{})
			until(t, done, func(c context.Context) error {
				return l.Tasks(c, 1, func(context.Context, api.Task) api.TaskResult {
					defer close(done)
					return api.TaskResult{}
				})
			})
		}},
		{"condenser", "reads views and commits derived events", func(t *testing.T, nc *nats.Conn) {
			_, err := natsmicro.NewReads(nc, events.DefaultPartitions).Lookup(ctx(t), api.LookupRequest{Ref: ref})
			must(t, err)
			commit(t, openOn(t, nc, natslog.Options{}), events.LaneDerived)
		}},
		{"toolsvc", "asks the others and dispatches tasks", func(t *testing.T, nc *nats.Conn) {
			_, err := natsmicro.NewReads(nc, events.DefaultPartitions).Lookup(ctx(t), api.LookupRequest{Ref: ref})
			must(t, err)
			_, err = natsmicro.NewWrites(nc).Append(ctx(t), api.AppendRequest{})
			must(t, err)
			_, err = natsmicro.NewCondenser(nc).Condense(ctx(t), ref, events.Position{})
			must(t, err)
			l := openOn(t, nc, natslog.Options{})
			_, err = l.LastSeq(ctx(t))
			must(t, err, l.PublishTask(ctx(t), events.Urgent, ref, events.Position{Seq: 22}))
		}},
		{"toolsvc", "lists, shows, adds and removes dead letters", func(t *testing.T, nc *nats.Conn) {
			l := openOn(t, nc, natslog.Options{})
			must(t, l.Bury(ctx(t), api.DeadLetter{Ref: ref, Origin: "f.jsonl:1", Reason: "test", Body: []byte("y")}))
			all, err := l.Dead(ctx(t), nil, 0, 10)
			must(t, err)
			if len(all) != 2 {
				t.Fatalf("%d letters", len(all))
			}
			_, err = l.DeadLetter(ctx(t), all[0].ID)
			must(t, err, l.Unbury(ctx(t), all[0].ID))
		}},
		{"toolsvc", "keeps an uploaded input, and asks for a job", func(t *testing.T, nc *nats.Conn) {
			l := openOn(t, nc, natslog.Options{})
			must(t, l.Objects().PutObject(ctx(t), "default/upload-1", strings.NewReader("{}\n")))
			_, err := natsmicro.NewMaps(nc).MapRun(ctx(t), api.MapRunIn{})
			must(t, err)
		}},
		{"mapper", "follows jobs, hands out their rows, and clears up behind them", func(t *testing.T, nc *nats.Conn) {
			j, done := openJobs(t, nc), make(chan struct{})
			m, err := mapjob.Event(job, mapjob.JobDefined{}, time.Now())
			must(t, err)
			seq, err := j.Publish(ctx(t), m)
			must(t, err)
			until(t, done, func(c context.Context) error {
				return j.Follow(c, 0, func(context.Context, []events.Record) error { close(done); return nil })
			})
			r, err := j.Object(ctx(t), "default/upload-1")
			must(t, err)
			text, err := io.ReadAll(r)
			must(t, err)
			if string(text) != "{}\n" {
				t.Errorf("%q", text)
			}
			must(t, j.ListObjects(ctx(t), func(string, time.Time) error { return nil }), j.DeleteObject(ctx(t), "default/upload-1"))
			must(t, j.CloseQueue(ctx(t), job), j.OpenQueue(ctx(t), api.RowQueue{Ref: job, Definition: seq}, 2))
			must(t, j.Push(ctx(t), job, []api.RowMessage{{N: 1, Text: []byte("{}")}}))
			if q, err := j.Queue(ctx(t), job); err != nil || q.Waiting != 1 {
				t.Errorf("%+v, %v", q, err)
			}
		}},
		{"mapworker", "claims rows, stores results, and asks for the grants of sub-agents", func(t *testing.T, nc *nats.Conn) {
			j := openJobs(t, nc)
			stop, err := j.Woken(func() {})
			must(t, err)
			defer stop()
			qs, err := j.Queues(ctx(t))
			must(t, err)
			if len(qs) != 1 {
				t.Fatalf("%d queues", len(qs))
			}
			_, err = j.Event(ctx(t), qs[0].Definition)
			must(t, err)
			n := 0
			must(t, j.Claim(ctx(t), job, 1, func(l api.RowLease) { n++; must(t, l.Alive(), l.Done(ctx(t))) }))
			if n != 1 {
				t.Errorf("%d rows", n)
			}
			m, err := mapjob.Event(job, mapjob.RowsFinished{}, time.Now())
			must(t, err)
			_, err = j.Publish(ctx(t), m)
			must(t, err)
			maps := natsmicro.NewMaps(nc)
			_, err = maps.Finished(ctx(t), job, 1, 0)
			must(t, err)
			_, err = maps.AgentOpen(ctx(t), api.AgentOpenIn{})
			must(t, err, maps.AgentPay(ctx(t), api.AgentPayIn{}), maps.AgentClose(ctx(t), grant.Claims{}))
		}},
		{"operator", "discovers the services", func(t *testing.T, nc *nats.Conn) {
			for _, name := range []string{"projector", "ingestor", "condenser", "toolsvc", "mapper"} {
				subject, err := micro.ControlSubject(micro.PingVerb, name, "")
				must(t, err)
				_, err = nc.RequestWithContext(ctx(t), subject, nil)
				must(t, err)
			}
		}},
	}
	for _, j := range jobs {
		t.Run(j.user+" "+j.job, func(t *testing.T) {
			nc := c.connect(t, j.user)
			j.do(t, nc)
			clean(t, nc)
		})
	}
}

// Without a toolsvc an agent is told at once, across accounts too.
func TestAgentIsToldThatNobodyAnswers(t *testing.T) {
	_, err := start(t).connect(t, "agent").RequestWithContext(ctx(t), "lcm.t.default.show", nil)
	if !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("err = %v", err)
	}
}
