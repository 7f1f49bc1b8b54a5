package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"lcm/internal/api"
)

// asToolServer makes the test binary an MCP server on stdio.
const asToolServer = "LCM_TEST_AS_TOOL_SERVER"

// toolServer has a tool that says it changes nothing, and one that does not.
func toolServer(more string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	say := func(text string) sdk.ToolHandlerFor[struct{}, any] {
		return func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text + more}}}, nil, nil
		}
	}
	sdk.AddTool(s, &sdk.Tool{Name: "look", Description: "looks", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, say("it is blue"))
	sdk.AddTool(s, &sdk.Tool{Name: "paint", Description: "paints"}, say("it is red now"))
	return s
}

func serveTools() {
	if err := toolServer(os.Getenv("LCM_MAP_SECRET")).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// message is one of a conversation, as a chat-completions server gets it.
type message struct{ Role, Content string }

// scripted is a model that does what a script says.
type scripted struct {
	*httptest.Server
	mu      sync.Mutex
	offered map[string][]string // first words of the user → tools
	told    []string            // what tools answered
}

// next is what a script has the model do: call a tool, or answer where tool is
// "".
type next struct{ tool, text string }

func newScripted(t *testing.T, script func(user string, results []string) next) *scripted {
	p := &scripted{offered: map[string][]string{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Messages []message
			Tools    []struct{ Function struct{ Name string } }
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		user, results := q.Messages[1].Content, []string{}
		for _, m := range q.Messages {
			if m.Role == "tool" {
				results = append(results, m.Content)
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		var names []string
		for _, one := range q.Tools {
			names = append(names, one.Function.Name)
		}
		p.offered[strings.Fields(user)[0]] = names
		if len(results) > 0 {
			p.told = append(p.told, results[len(results)-1])
		}
		do := script(user, results)
		text, _ := json.Marshal(do.text)
		usage := `"usage":{"prompt_tokens":400,"completion_tokens":20}`
		if do.tool != "" {
			fmt.Fprintf(w, `{"choices":[{"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":%q,"arguments":%s}}]}}],%s}`, len(results), do.tool, text, usage)
			return
		}
		fmt.Fprintf(w, `{"choices":[{"finish_reason":"stop","message":{"content":%s}}],%s}`, text, usage)
	}))
	t.Cleanup(p.Close)
	return p
}

// A sub-agent uses the tools of configured servers, begins a map below itself,
// and reaches nothing outside its scope: with its workers in the server's
// process, and in one that has neither tools nor keys.
func TestSubAgentsToolsAndMaps(t *testing.T) {
	inner := `{"text":"INNER"}`
	nested, _ := json.Marshal(map[string]any{"input_rows": inner + "\n" + inner + "\n", "prompt": "{{text}} look around", "output_schema": json.RawMessage(mapSchema)})
	wide, _ := json.Marshal(map[string]any{"input_rows": inner, "prompt": "x", "output_schema": json.RawMessage(mapSchema), "sessions": []string{"closed"}})
	file, _ := json.Marshal(map[string]any{"input_path": "in.jsonl", "prompt": "x", "output_schema": json.RawMessage(mapSchema)})
	script := func(user string, results []string) next {
		kind, n := strings.Fields(user)[0], len(results)
		switch {
		case kind == "OUTER" && n < 4:
			return []next{{"agentic_map", string(wide)}, {"agentic_map", string(file)}, {"llm_map", `{}`}, {"agentic_map", string(nested)}}[n]
		case kind == "OUTER" && n == 4:
			var job api.MapOut
			_ = json.Unmarshal([]byte(results[3]), &job) // else the next call says so
			return next{"lcm_map_watch", `{"job":"` + job.Job + `"}`}
		case kind == "OUTER":
			var job api.MapOut
			_ = json.Unmarshal([]byte(results[4]), &job)
			return next{"", fmt.Sprintf(`{"label":"%d done below"}`, job.OK)}
		case n < 4:
			return []next{{"lcm_grep", `{"pattern":"harbour","session":"open"}`}, {"lcm_grep", `{"pattern":"password","session":"closed"}`}, {"files__look", `{}`}, {"files__paint", `{}`}}[n]
		case kind == "WEB" && n == 4:
			return next{"web__look", `{}`}
		}
		return next{"", `{"label":"looked"}`}
	}
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return toolServer("") }, nil))
	t.Cleanup(web.Close)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asToolServer, "1") // after asLCM, which decides first
	t.Setenv("LCM_MAP_SECRET", "the key of a model")
	config := func(dir string) {
		t.Helper()
		text := fmt.Sprintf("[[map.mcp]]\nname = \"files\"\ncommand = [%q]\nenv = [%q]\n\n[[map.mcp]]\nname = \"web\"\nurl = %q\ntools = [\"look\"]\n", exe, asToolServer, web.URL)
		if err := os.WriteFile(filepath.Join(dir, "lcm.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("apart=%v", apart), func(t *testing.T) {
			p := newScripted(t, script)
			options := []string{"--option", "map.kind=openai", "--option", "map.base_url=" + p.URL, "--option", "map.model=fake"}
			dir := t.TempDir()
			config(dir)
			if apart {
				url, there := natsServer(t), t.TempDir()
				config(there)
				bin := filepath.Join(t.TempDir(), "mapworker")
				if out, err := exec.Command("go", "build", "-o", bin, "lcm/cmd/mapworker").CombinedOutput(); err != nil {
					t.Fatalf("build: %v\n%s", err, out)
				}
				serve(t, dir, append(options, "--nats", url, "--option", "map.calls=0")...)
				c := exec.Command(bin, "--nats", url, "--data-dir", there, "--ops-listen", "127.0.0.1:0")
				c.Env = append(os.Environ(), "LCM_MAP_KIND=openai", "LCM_MAP_BASE_URL="+p.URL, "LCM_MAP_MODEL=fake")
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
			} else {
				serve(t, dir, options...)
			}
			for session, text := range map[string]string{"open": "the harbour was dredged in May", "closed": "the password is swordfish"} {
				if r := lcmIn(t, dir, fmt.Sprintf(`{"id":"1","role":"user","content":%q}`, text), "append", session); r.code != 0 {
					t.Fatal(r.err)
				}
			}
			run := func(row string, more ...string) api.MapOut {
				t.Helper()
				args := append([]string{"map", "run", "-", "--agentic", "--session", "open", "--prompt", "{{text}} do it", "--schema", mapSchema, "--json"}, more...)
				r := lcmIn(t, dir, fmt.Sprintf("{\"text\":%q}\n", row), args...)
				out := decode[api.MapOut](t, r.out)
				if r.code != 0 || out.OK != 1 {
					t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
				}
				return out
			}
			if out := run("OUTER", "--depth", "1"); !strings.Contains(out.First[0], "2 done below") {
				t.Errorf("%+v\n%s", out, strings.Join(p.told, "\n"))
			}
			run("WEB", "--may-write")
			said := strings.Join(p.told, "\n")
			for _, want := range []string{
				"harbour was dredged", "it is blue", `there is no tool "files__paint"`, "it is red now", `there is no tool "llm_map"`,
				`session "closed" is not in grant`, "files and objects are not in the grant", "session closed as a whole is not in the grant",
			} {
				if !strings.Contains(said, want) {
					t.Errorf("no tool answered %q", want)
				}
			}
			if strings.Contains(said, "swordfish") || strings.Contains(said, "the key of a model") {
				t.Errorf("tools told what they must not:\n%s", said)
			}
			for kind, want := range map[string][]bool{ // agentic_map, files__look, files__paint, web__look, web__paint
				"OUTER": {true, true, false, true, false}, "INNER": {false, true, false, true, false}, "WEB": {false, true, true, true, false},
			} {
				for i, name := range []string{"agentic_map", "files__look", "files__paint", "web__look", "web__paint"} {
					if slices.Contains(p.offered[kind], name) != want[i] {
						t.Errorf("%s: %s among %v, want %v", kind, name, p.offered[kind], want[i])
					}
				}
			}
		})
	}
}
