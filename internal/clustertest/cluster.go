// Package clustertest runs a cluster of three NATS servers with JetStream in
// this process, on loopback, for tests of a replicated log.
package clustertest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Size of a cluster.
const Size = 3

// Cluster of three servers.
type Cluster struct {
	t       testing.TB
	options [Size]*server.Options
	servers [Size]*server.Server
}

// Start runs a cluster until the test ends.
func Start(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	var routes []*url.URL
	ports := freePorts(t)
	for i := range Size {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", ports[i])})
	}
	for i := range Size {
		c.options[i] = &server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: ports[Size+i], NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), MaxPayload: 8 << 20,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: ports[i]}, Routes: routes,
		}
	}
	for i := range Size {
		c.Restart(i)
	}
	t.Cleanup(func() {
		for i := range Size {
			c.Kill(i)
		}
	})
	c.ready()
	return c
}

// freePorts are held all at once, so that none is found twice.
func freePorts(t testing.TB) (ports [2 * Size]int) {
	t.Helper()
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// Kill stops server i at once, its clients are not told.
func (c *Cluster) Kill(i int) {
	if s := c.servers[i]; s != nil {
		s.Shutdown()
		s.WaitForShutdown()
		c.servers[i] = nil
	}
}

// Restart runs server i, which does not run, over its files.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	s, err := server.NewServer(c.options[i].Clone())
	if err != nil {
		c.t.Fatal(err)
	}
	c.servers[i] = s
	go s.Start() // ends with Shutdown
	if !s.ReadyForConnections(20 * time.Second) {
		c.t.Fatalf("server %d of the cluster does not start", i)
	}
}

// Leader is the server that leads a stream, -1 where none does.
func (c *Cluster) Leader(stream string) int {
	for i, s := range c.servers {
		if s != nil && s.JetStreamIsStreamLeader("$G", stream) {
			return i
		}
	}
	return -1
}

// ready waits until JetStream has a leader that answers.
func (c *Cluster) ready() {
	c.t.Helper()
	nc := c.Conn()
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := js.AccountInfo(ctx)
		cancel()
		peers := 0
		for _, s := range c.servers {
			peers = max(peers, len(s.JetStreamClusterPeers()))
		}
		if err == nil && peers == Size {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("the cluster has no leader: %v", err)
		}
	}
}

// Conn is a connection that finds another server when its own is gone.
func (c *Cluster) Conn() *nats.Conn {
	c.t.Helper()
	var urls []string
	for _, o := range c.options {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	return nc
}
