package node

import (
	"context"
	"errors"
	"time"

	"lcm/condense"
	"lcm/extract"
	"lcm/internal/config"
	"lcm/internal/problem"
	"lcm/llm"
)

// openModels makes the chain of the configured models, for every role that asks
// one: they share limits, breakers and spending. n.models stays nil where
// everything is done by rule.
func (n *Node) openModels() error {
	if !n.roles.Condenser && !n.roles.Toolsvc && !n.roles.MapWorkers {
		return nil // nobody asks a model, nor needs its key
	}
	var clients []*llm.Client
	for _, p := range n.cfg.Summarizer.Providers() {
		c, err := llm.New(llm.Config{
			Family: llm.Family(p.Kind), BaseURL: p.BaseURL, Model: p.Model, KeyEnv: p.KeyEnv,
			Timeout:           time.Duration(p.TimeoutSeconds) * time.Second,
			RequestsPerSecond: float64(p.RequestsPerMinute) / 60,
			OutputField:       p.OutputField, ReasoningTokens: p.ReasoningTokens,
		}, llm.Deps{OnCall: n.modelCalled(p)})
		if err != nil && !n.roles.Condenser {
			n.slog.Warn("no model for questions: they are answered by rule", "model", p.Model, "error", err)
			return nil
		}
		if err != nil {
			return problem.New(problem.Invalid, "the model %s cannot be used: %w", p.Model, err).WithHint("see [summarizer] in lcm.toml, LCM_SUMMARIZER_*")
		}
		clients = append(clients, c)
	}
	if len(clients) == 0 {
		return nil
	}
	var err error
	if n.models, err = llm.NewChain(clients, n.cfg.Summarizer.TokensPerHour); err != nil {
		return err
	}
	n.metrics.WatchModels(n.models.State)
	return nil
}

// modelCalled counts attempts; a model that a caller named is "other", so that
// callers do not make labels.
func (n *Node) modelCalled(p config.Provider) func(llm.Call) {
	return func(c llm.Call) {
		model := p.Model
		if c.Model != model {
			model = "other"
		}
		n.metrics.Model(p.Kind, model, c.Code, c.InputTokens, c.OutputTokens)
	}
}

// summarizer is the configured one; none of them is ever guessed.
func (n *Node) summarizer() condense.Summarizer {
	switch {
	case n.models == nil:
		return extract.Summarizer{}
	case n.cfg.Summarizer.WhenDown == config.Extractive:
		return fallback{n.models}
	}
	return n.models
}

// fallback makes by rule what no model makes.
type fallback struct{ condense.Summarizer }

func (f fallback) Summarize(ctx context.Context, r condense.Request) (condense.Response, error) {
	out, err := f.Summarizer.Summarize(ctx, r)
	if err == nil || ctx.Err() != nil || errors.Is(err, condense.ErrTooLong) {
		return out, err
	}
	return extract.Summarizer{}.Summarize(ctx, r)
}
