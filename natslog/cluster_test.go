package natslog

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"lcm/internal/clustertest"
)

// onCluster, while TestCluster runs: open gives a log of three replicas.
var onCluster *clustertest.Cluster

// openReplicated makes a new log on the cluster.
func openReplicated(t testing.TB) *Log {
	t.Helper()
	nc := onCluster.Conn()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames(ctx(t)).Name() {
		if err := js.DeleteStream(ctx(t), name); err != nil {
			t.Fatal(err)
		}
	}
	return openOn(t, nc, Options{Create: true, Replicas: 3})
}

// The log's suite over three servers.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("three servers take a while")
	}
	onCluster = clustertest.Start(t)
	defer func() { onCluster = nil }()
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"commit many batches", TestCommitManyBatches},
		{"conflicts", TestCommitConflict},
		{"follow", TestFollow},
		{"scan", TestScan},
		{"inbox", TestInbox},
		{"tasks", TestTasks},
		{"dead letters", TestDeadLetters},
		{"ledgers", TestLedgers},
	} {
		t.Run(tt.name, tt.test)
	}
}
