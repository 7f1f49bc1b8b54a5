package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// hookWithin bounds a hook: an agent waits for it.
const hookWithin = 25 * time.Second

// hookInput is what Claude Code writes to a hook's stdin.
type hookInput struct {
	Event           string `json:"hook_event_name"`
	Session         string `json:"session_id"`
	Transcript      string `json:"transcript_path"`
	AgentTranscript string `json:"agent_transcript_path"` // of a subagent that stopped
	Source          string `json:"source"`                // of a session's start
}

func (a *app) hookCmd() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Record a Claude Code session as it goes, from a hook",
		Long: `Reads the JSON that Claude Code writes to a hook's stdin and imports the
session's transcript: what is known is recognised, so every hook may come. It
prints nothing but, when a session starts, a line for the model. A failure never
stops the agent: it is said on stderr, and the exit code is 0.`,
		Example: `  echo '{"hook_event_name":"Stop","session_id":"4f0c","transcript_path":"/home/me/.claude/projects/x/4f0c.jsonl"}' | lcm hook`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			ctx, cancel := context.WithTimeout(a.ctx, hookWithin)
			defer cancel()
			a.ctx = ctx
			err := a.hook()
			if err != nil && !strict {
				fmt.Fprintln(a.err, "lcm: not recorded: "+visible(oneLine(problem.From(err).Error())))
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "fail with an exit code")
	return cmd
}

func (a *app) hook() error {
	b, err := io.ReadAll(io.LimitReader(a.in, 1<<20))
	if err != nil {
		return err
	}
	var in hookInput
	if err := json.Unmarshal(b, &in); err != nil {
		return problem.New(problem.Invalid, "stdin is not a hook's JSON: %w", err)
	}
	if in.Session == "" || in.Transcript == "" {
		return problem.New(problem.Invalid, "stdin names no session_id and transcript_path")
	}
	files := map[string]string{in.Transcript: in.Session}
	if in.AgentTranscript != "" && in.AgentTranscript != in.Transcript {
		base := filepath.Base(in.AgentTranscript)
		files[in.AgentTranscript] = in.Session + "/" + strings.TrimSuffix(base, filepath.Ext(base))
	}
	err = a.with(func(ctx context.Context, c *client.Client) error {
		for file, session := range files {
			if err := a.record(ctx, c, file, session); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && in.Event == "SessionStart" {
		_, err = fmt.Fprintf(a.out, "Every turn of this session is kept by lcm as session %q. What is no longer in the context can be found with lcm_grep and read with lcm_describe.\n", in.Session)
	}
	return err
}

// record imports what a transcript holds by now. A line that is being written
// has no end yet: it comes with the next hook.
func (a *app) record(ctx context.Context, c *client.Client, file, session string) error {
	if rest, ok := strings.CutPrefix(file, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		file = filepath.Join(home, rest)
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing has been said yet
	}
	if err != nil {
		return problem.New(problem.Invalid, "%w", err)
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	if len(b) == 0 {
		return nil
	}
	in := api.ImportIn{Scope: api.Scope{Tenant: a.cfg.Tenant, Session: session}, File: filepath.Base(file), Format: "claude-code"}
	_, err = c.Import(ctx, in, bytes.NewReader(b), nil)
	return err
}
