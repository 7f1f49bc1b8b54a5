// Package lcm_test holds the rules that concern the module as a whole.
package lcm_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// Layers of the module, lowest first. A package may import packages of its own
// row's "may" list only; everything of the module that is not listed is wiring
// or a main, and may import anything.
var layers = []struct {
	packages []string
	may      []string // packages of this module
	engines  bool     // may import NATS, bbolt, Bleve
}{
	{packages: []string{"events", "tokens", "explore", "rank", "chat", "grant"}},
	{packages: []string{"session"}, may: []string{"events", "tokens"}},
	{packages: []string{"transcript", "mapjob"}, may: []string{"events"}},
	{packages: []string{"window"}, may: []string{"events", "session", "tokens", "transcript"}},
	{packages: []string{"condense"}, may: []string{"events", "session", "tokens", "window", "chat"}},
	{packages: []string{"extract"}, may: []string{"events", "condense", "tokens"}},
	{packages: []string{"internal/problem", "internal/request", "internal/await", "internal/wholefile"}},
	{packages: []string{"internal/api"}, may: []string{"events", "session", "rank", "grant", "mapjob", "internal/problem"}},
	// Adapters translate; they never import each other.
	{
		packages: []string{"natslog", "natsembed", "natsmicro", "boltstore", "bleveindex", "llm"},
		may:      []string{"events", "session", "condense", "tokens", "rank", "chat", "grant", "mapjob", "internal/api", "internal/await", "internal/problem", "internal/request"}, engines: true,
	},
	// Services orchestrate over ports; they never import adapters or engines.
	{
		packages: []string{"internal/ingest", "internal/projector", "internal/condenser"},
		may:      []string{"events", "session", "condense", "window", "transcript", "tokens", "explore", "extract", "rank", "grant", "internal/api", "internal/await", "internal/problem", "internal/request", "internal/wholefile"},
	},
	{
		packages: []string{"internal/toolsvc"},
		may:      []string{"events", "session", "condense", "window", "transcript", "tokens", "chat", "grant", "internal/api", "internal/await", "internal/problem", "internal/reader", "internal/request"},
	},
	{packages: []string{"internal/reader"}, may: []string{"chat", "window", "internal/subagent"}},
	{packages: []string{"internal/subagent"}, may: []string{"chat", "tokens", "internal/problem"}},
	{packages: []string{"internal/grants"}, may: []string{"grant", "internal/problem"}},
	{packages: []string{"internal/auth"}, may: []string{"events", "grant", "internal/api", "internal/problem", "internal/wholefile"}},
	// The tools over another protocol.
	{packages: []string{"internal/mcp"}, may: []string{"internal/api", "internal/problem", "internal/toolsvc"}},
	{
		packages: []string{"internal/mapper"},
		may:      []string{"events", "tokens", "chat", "grant", "mapjob", "internal/api", "internal/await", "internal/problem", "internal/subagent"},
	},
	{packages: []string{"client"}, may: []string{"internal/api", "internal/await", "internal/problem", "internal/request"}},
	{packages: []string{"internal/scrub"}, may: []string{"internal/api", "internal/await", "internal/verify", "internal/wholefile"}},
	// What needs the log alone: read it whole, copy it.
	{packages: []string{"internal/verify", "internal/backup"}, may: []string{"events", "session", "internal/api", "internal/await", "internal/problem"}},
	{packages: []string{"internal/demo"}, may: []string{"internal/api", "client"}},
	{packages: []string{"internal/fakemodel"}},
	{packages: []string{"internal/metrics"}, may: []string{"events", "internal/api", "internal/problem"}},
	{packages: []string{"internal/config"}, may: []string{"events"}},
}

var engines = []string{"github.com/nats-io/", "github.com/synadia-io/", "go.etcd.io/bbolt", "github.com/blevesearch/"}

func TestImportsPointOneWay(t *testing.T) {
	pkgs := list(t)
	for _, l := range layers {
		for _, name := range l.packages {
			p, ok := pkgs["lcm/"+name]
			if !ok {
				t.Errorf("package %s is listed and does not exist", name)
				continue
			}
			for _, imp := range p.Imports {
				if own, inside := strings.CutPrefix(imp, "lcm/"); inside && !contains(l.may, own) {
					t.Errorf("%s imports %s: allowed are %v", name, own, l.may)
				}
				for _, e := range engines {
					if strings.HasPrefix(imp, e) && !l.engines {
						t.Errorf("%s imports the engine %s", name, imp)
					}
				}
			}
		}
	}
}

// A pure package reads no clock, no file and no network.
func TestPurePackagesDoNoIO(t *testing.T) {
	pkgs := list(t)
	for _, name := range []string{"events", "tokens", "explore", "session", "transcript", "window", "condense", "extract", "rank", "chat", "mapjob", "grant"} {
		for _, imp := range pkgs["lcm/"+name].Imports {
			switch imp {
			case "os", "net", "net/http", "os/exec", "log", "log/slog", "math/rand", "math/rand/v2", "syscall":
				t.Errorf("%s imports %s", name, imp)
			}
		}
	}
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func list(t *testing.T) map[string]pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	pkgs := map[string]pkg{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs[p.ImportPath] = p
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
