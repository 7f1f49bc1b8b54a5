package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lcm/internal/api"
)

// The snippets that the documentation points to, against a running server.
func TestSnippets(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir)
	url := serverURL(t, dir)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("python", func(t *testing.T) {
		have(t, "python3")
		runSnippet(t, "python3", "-B", filepath.Join("testdata", "snippets.py"), url, filepath.Join(root, "integrations", "python"))
	})
	t.Run("typescript", func(t *testing.T) {
		have(t, "node")
		src, err := os.ReadFile(filepath.Join(root, "integrations", "typescript", "lcm.ts"))
		if err != nil {
			t.Fatal(err)
		}
		module := filepath.Join(t.TempDir(), "lcm.mjs")
		if err := os.WriteFile(module, src, 0o600); err != nil {
			t.Fatal(err)
		}
		runSnippet(t, "node", filepath.Join("testdata", "snippets.mjs"), url, module)
	})
}

func have(t *testing.T, name string) {
	t.Helper()
	if err := exec.Command(name, "--version").Run(); err != nil {
		t.Skipf("there is no %s", name)
	}
}

func runSnippet(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(out)), "ok") {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// claudeLine is a line of a session file of Claude Code.
func claudeLine(uuid, parent, role, text string) string {
	b, _ := json.Marshal(map[string]any{
		"uuid": uuid, "parentUuid": parent, "sessionId": "4f0c", "type": role, "timestamp": "2026-04-01T09:30:00Z",
		"message": map[string]any{"role": role, "content": text},
	})
	return string(b) + "\n"
}

// The plugin's hooks record a session while it is written, each turn once, and
// never stop the agent.
func TestClaudeCodePlugin(t *testing.T) {
	plugin := filepath.Join("..", "..", "plugins", "claude-code")
	read := func(elem ...string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(append([]string{plugin}, elem...)...))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if m := decode[struct{ Name, Version, Description string }](t, string(read(".claude-plugin", "plugin.json"))); m.Name != "lcm" || m.Version == "" || m.Description == "" {
		t.Errorf("%+v", m)
	}
	servers := decode[struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		}
	}](t, string(read(".mcp.json")))
	if s := servers.MCPServers["lcm"]; s.Command != "lcm" || strings.Join(s.Args, " ") != "mcp" {
		t.Errorf("%+v", servers)
	}
	hooks := decode[struct {
		Hooks map[string][]struct {
			Hooks []struct {
				Type, Command string
				Timeout       int
			}
		}
	}](t, string(read("hooks", "hooks.json"))).Hooks

	dir := t.TempDir()
	transcript := filepath.Join(t.TempDir(), "4f0c.jsonl")
	fire := func(event, text string) result {
		t.Helper()
		f, err := os.OpenFile(transcript, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		f.Close()
		h := hooks[event]
		if len(h) != 1 || len(h[0].Hooks) != 1 || h[0].Hooks[0].Type != "command" || h[0].Hooks[0].Timeout < 26 {
			t.Fatalf("hook %s: %+v", event, h)
		}
		args := strings.Fields(h[0].Hooks[0].Command)
		if args[0] != "lcm" {
			t.Fatalf("hook %s runs %v", event, args)
		}
		in, _ := json.Marshal(map[string]any{"hook_event_name": event, "session_id": "4f0c", "transcript_path": transcript, "cwd": dir, "tool_name": "Bash"})
		r := lcmIn(t, dir, string(in), args[1:]...)
		if r.code != 0 || r.err != "" || (r.out != "") != (event == "SessionStart") {
			t.Fatalf("%s: exit %d, %q, %q", event, r.code, r.out, r.err)
		}
		return r
	}
	half := claudeLine("u4", "u3", "user", "and then?")
	if r := fire("SessionStart", ""); !strings.Contains(r.out, "4f0c") {
		t.Errorf("%q", r.out)
	}
	fire("UserPromptSubmit", claudeLine("u1", "", "user", "list the files"))
	fire("PostToolUse", claudeLine("u2", "u1", "assistant", "listing"))
	fire("PostToolUse", "")
	fire("Stop", claudeLine("u3", "u2", "assistant", "three files")+half[:20])
	if turns := lines[api.TurnOut](t, ok(t, dir, "show", "4f0c", "--json")); len(turns) != 3 {
		t.Errorf("%d turns while a line is being written", len(turns))
	}
	fire("PreCompact", half[20:])
	fire("SubagentStop", "")
	fire("SessionEnd", "")
	turns := lines[api.TurnOut](t, ok(t, dir, "show", "4f0c", "--json"))
	var got bytes.Buffer
	for _, turn := range turns {
		got.WriteString(turn.ID + " " + turn.Text + "; ")
	}
	if got.String() != "u1 list the files; u2 listing; u3 three files; u4 and then?; " {
		t.Errorf("recorded: %s", got.String())
	}
	if dead := ok(t, dir, "dead", "list"); dead != "" {
		t.Errorf("dead letters: %s", dead)
	}
	for _, broken := range []string{"", "no JSON", `{"session_id":"4f0c"}`, `{"session_id":"4f0c","transcript_path":"/nowhere/x.jsonl"}`} {
		if r := lcmIn(t, dir, broken, "hook"); r.code != 0 || r.out != "" {
			t.Errorf("%q: exit %d, %q", broken, r.code, r.out)
		}
	}
	if r := lcmIn(t, dir, "no JSON", "hook", "--strict"); r.code == 0 {
		t.Error("--strict does not fail")
	}
}
