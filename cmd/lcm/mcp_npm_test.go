package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The packages the protocol is tried with.
const (
	npmSDK       = "@modelcontextprotocol/sdk@1.32.2"
	npmInspector = "@modelcontextprotocol/inspector@2.12.0"
)

// npmModules is a directory with the packages installed. LCM_NPM=1 installs
// them, LCM_NPM=DIR has them in DIR/node_modules; otherwise the test is skipped.
func npmModules(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("LCM_NPM")
	if dir == "" {
		t.Skip("LCM_NPM is not set: no client from npm")
	}
	if _, err := exec.LookPath("npx"); err != nil {
		t.Skip("there is no npx")
	}
	if dir == "1" {
		dir = t.TempDir()
		nodeRun(t, dir, "", "npm", "install", "--no-fund", "--no-audit", npmSDK, npmInspector)
	}
	src, err := os.ReadFile(filepath.Join("testdata", "mcp", "drive.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "drive.mjs"), src, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func nodeRun(t *testing.T, dir, stdin, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stdin = dir, strings.NewReader(stdin)
	c.Env = append(os.Environ(), asLCM+"=1")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%s %.300v: %v\n%.3000s\n%.3000s", name, args, err, errs.String(), out.String())
	}
	return out.String()
}

// npmCalls use every tool.
func npmCalls(mark string) []map[string]any {
	job := map[string]any{"job": "01JB00000000000000000000AA"}
	turns := []any{map[string]any{"id": "n-" + mark, "role": "user", "content": "kept by " + mark}}
	return []map[string]any{
		{"tool": "lcm_grep", "args": map[string]any{"pattern": "retry"}},
		{"tool": "lcm_grep", "args": map[string]any{"pattern": "zzzunheardof"}},
		{"tool": "lcm_grep", "args": map[string]any{"pattern": "(", "mode": "regex"}, "error": "invalid"},
		{"tool": "lcm_describe", "args": map[string]any{"id": "work/n1"}},
		{"tool": "lcm_describe", "args": map[string]any{"id": "session:work"}},
		{"tool": "lcm_describe", "args": map[string]any{"id": "work/n999"}, "error": "not_found"},
		{"tool": "lcm_expand", "args": map[string]any{"id": "work/n1"}},
		{"tool": "lcm_context", "args": map[string]any{"session": "work"}},
		{"tool": "lcm_sessions", "args": map[string]any{}},
		{"tool": "lcm_status", "args": map[string]any{}},
		{"tool": "llm_map", "args": map[string]any{"prompt": "p", "output_schema": map[string]any{"type": "object"}}, "error": "unavailable"},
		{"tool": "agentic_map", "args": map[string]any{"prompt": "p", "output_schema": map[string]any{"type": "object"}}, "error": "unavailable"},
		{"tool": "lcm_map_list", "args": map[string]any{}},
		{"tool": "lcm_map_status", "args": job, "error": "not_found"},
		{"tool": "lcm_map_output", "args": job, "error": "not_found"},
		{"tool": "lcm_map_aggregate", "args": job, "error": "not_found"},
		{"tool": "lcm_map_retry", "args": job, "error": "not_found"},
		{"tool": "lcm_map_cancel", "args": job, "error": "not_found"},
		{"tool": "lcm_expand_query", "args": map[string]any{"prompt": "how was the retry decided?"}},
		{"tool": "lcm_append", "args": map[string]any{"session": "notes", "turns": turns}},
		{"tool": "lcm_append", "args": map[string]any{"session": "notes", "turns": turns}},
	}
}

// Clients of other makers use every tool, over stdio and HTTP.
func TestClientsFromNPM(t *testing.T) {
	modules := npmModules(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	served, alone := memory(t), memory(t)
	serve(t, served)
	targets := map[string][]string{
		"http":  {serverURL(t, served) + "/mcp"},
		"stdio": {exe, "--data-dir", alone, "mcp", "--expand"},
	}
	for kind, target := range targets {
		for _, version := range []string{"2025-06-18", "2025-11-25"} {
			t.Run("sdk "+kind+" "+version, func(t *testing.T) {
				calls := npmCalls(kind + version)
				in, err := json.Marshal(map[string]any{"calls": calls})
				if err != nil {
					t.Fatal(err)
				}
				args := append([]string{"drive.mjs", version, kind}, target...)
				r := decode[struct {
					Negotiated string
					Tools      []string
					Answers    []struct{ Tool string }
				}](t, nodeRun(t, modules, string(in), "node", args...))
				if r.Negotiated != version || len(r.Answers) != len(calls) {
					t.Errorf("%+v", r)
				}
				for _, tool := range r.Tools {
					if !slices.ContainsFunc(r.Answers, func(a struct{ Tool string }) bool { return a.Tool == tool }) {
						t.Errorf("%s was not called", tool)
					}
				}
			})
		}
		for _, era := range []string{"legacy", "modern"} {
			t.Run("inspector "+kind+" "+era, func(t *testing.T) { inspect(t, modules, kind, era, target) })
		}
	}
}

// inspect drives a server with the inspector: legacy is the protocol with a
// handshake, modern the one of 2026-07-28.
func inspect(t *testing.T, modules, kind, era string, target []string) {
	base := []string{"@modelcontextprotocol/inspector", "--cli", "--format", "json", "--quiet", "--protocol-era", era}
	if kind == "http" {
		base = append(base, "--transport", "http", "--server-url", target[0])
	}
	command := func(args ...string) []string {
		all := append(slices.Clone(base), args...)
		if kind == "stdio" {
			all = append(append(all, "-e", asLCM+"=1", "--"), target...)
		}
		return all
	}
	list := nodeRun(t, modules, "", "npx", command("--method", "tools/list", "--strict")...)
	if !strings.Contains(list, "lcm_grep") {
		t.Fatalf("%.500s", list)
	}
	for _, c := range npmCalls("inspector" + kind + era) {
		if c["error"] != nil {
			continue
		}
		args, err := json.Marshal(c["args"])
		if err != nil {
			t.Fatal(err)
		}
		out := nodeRun(t, modules, "", "npx", command("--method", "tools/call", "--tool-name", c["tool"].(string), "--tool-args-json", string(args))...)
		if !strings.Contains(out, "structuredContent") || strings.Contains(out, `"isError":true`) {
			t.Errorf("%s: %.500s", c["tool"], out)
		}
	}
}
