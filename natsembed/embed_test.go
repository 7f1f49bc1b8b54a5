package natsembed

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStartStopReopen(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Options{Dir: dir})
	nc, err := s.Conn()
	if err != nil {
		t.Fatal(err)
	}
	if s.URL() != "" {
		t.Errorf("URL = %q without a listener", s.URL())
	}
	if got := nc.MaxPayload(); got != DefaultMaxPayload {
		t.Errorf("max payload = %d", got)
	}
	publish(t, nc)
	s.Stop()
	if !nc.IsClosed() {
		t.Error("Stop left a connection open")
	}
	s = start(t, Options{Dir: dir})
	defer s.Stop()
	if _, err := os.Stat(filepath.Join(dir, asideDir)); !os.IsNotExist(err) {
		t.Errorf("blocks copied aside after a clean stop: %v", err)
	}
}

func TestUncleanStopCopiesBlocksAside(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		s := start(t, Options{Dir: dir})
		nc, err := s.Conn()
		if err != nil {
			t.Fatal(err)
		}
		publish(t, nc)
		s.Kill()
	}
	s := start(t, Options{Dir: dir})
	defer s.Stop()
	got, err := filepath.Glob(filepath.Join(dir, asideDir, "*", "T", "msgs", "*.blk"))
	if err != nil || len(got) == 0 {
		t.Fatalf("nothing copied aside: %v, %v", got, err)
	}
	if n, _ := os.ReadDir(filepath.Join(dir, asideDir)); len(n) != keptAside {
		t.Errorf("%d copies kept, want %d", len(n), keptAside)
	}
}

func TestListenWithToken(t *testing.T) {
	s := start(t, Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", Token: "secret"})
	defer s.Stop()
	if _, err := nats.Connect(s.URL()); err == nil {
		t.Error("connected without the token")
	}
	nc, err := nats.Connect(s.URL(), nats.Token("secret"))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if _, err := s.Conn(); err != nil {
		t.Errorf("in-process: %v", err)
	}
}

func TestBadOptions(t *testing.T) {
	for _, o := range []Options{{}, {Dir: t.TempDir(), Listen: "nowhere"}, {Dir: t.TempDir(), Listen: "h:x"}} {
		if _, err := Start(o); err == nil {
			t.Errorf("%+v started", o)
		}
	}
}

func publish(t *testing.T, nc *nats.Conn) {
	t.Helper()
	req := []byte(`{"name":"T","subjects":["t"],"storage":"file","retention":"limits","max_age":0,"num_replicas":1}`)
	if _, err := nc.Request("$JS.API.STREAM.CREATE.T", req, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Request("t", []byte("x"), 5*time.Second); err != nil {
		t.Fatal(err)
	}
}
