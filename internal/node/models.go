package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"lcm/condense"
	"lcm/extract"
	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/config"
	"lcm/internal/problem"
	"lcm/internal/reader"
	"lcm/internal/toolsvc"
	"lcm/llm"
	"lcm/natsmicro"
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
		c, err := n.client(p)
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
	n.models, err = llm.NewChain(clients, n.cfg.Summarizer.TokensPerHour)
	return err
}

// chainOf is a chain of one provider, named by a section of the configuration;
// the same tenants pay for it.
func (n *Node) chainOf(section string, p config.Provider) (*llm.Chain, error) {
	client, err := n.client(p)
	if err != nil {
		return nil, problem.New(problem.Invalid, "the model %s cannot be used: %w", p.Model, err).WithHint("see [%s] in lcm.toml, LCM_%s_*", section, strings.ToUpper(section))
	}
	if all := n.chains(); len(all) > 0 {
		return all[0].With(client), nil
	}
	return llm.NewChain([]*llm.Client{client}, n.cfg.Summarizer.TokensPerHour)
}

// reader answers questions with the model of [reader], else with the
// summarizer's; nil where there is none.
func (n *Node) reader() toolsvc.Reader {
	c := n.cfg.Reader
	model := n.models
	if c.Kind != "" && c.Kind != config.None {
		var err error
		if n.readModel, err = n.chainOf("reader", config.Provider{
			Kind: c.Kind, BaseURL: c.BaseURL, Model: c.Model, KeyEnv: c.KeyEnv, RequestsPerMinute: c.RequestsPerMinute,
			OutputField: c.OutputField, ReasoningTokens: c.ReasoningTokens, TimeoutSeconds: c.Seconds,
		}); err != nil {
			n.slog.Warn("no model for questions: they are answered by rule", "model", c.Model, "error", err)
			return nil
		}
		model = n.readModel
	}
	if model == nil || c.Kind == config.None {
		return nil
	}
	return reader.New(model, reader.Limits{Calls: c.Turns, Time: time.Duration(c.Seconds) * time.Second})
}

// client of one provider, counted.
func (n *Node) client(p config.Provider) (*llm.Client, error) {
	return llm.New(llm.Config{
		Family: llm.Family(p.Kind), BaseURL: p.BaseURL, Model: p.Model, KeyEnv: p.KeyEnv,
		Timeout:           time.Duration(p.TimeoutSeconds) * time.Second,
		RequestsPerSecond: float64(p.RequestsPerMinute) / 60,
		OutputField:       p.OutputField, ReasoningTokens: p.ReasoningTokens,
	}, llm.Deps{OnCall: n.modelCalled(p)})
}

// chains of models that this process asks.
func (n *Node) chains() []*llm.Chain {
	var out []*llm.Chain
	for _, c := range []*llm.Chain{n.models, n.mapModel, n.readModel} {
		if c != nil {
			out = append(out, c)
		}
	}
	return out
}

func (n *Node) states() []api.ModelState {
	out := []api.ModelState{}
	for _, c := range n.chains() {
		out = append(out, c.State()...)
	}
	return out
}

// learnEvery is how old the news of what other processes have spent may be.
const learnEvery = 2 * time.Second

// shareSpending makes a limit one of all processes together, which a restart
// does not lift.
func (n *Node) shareSpending(ctx context.Context) {
	all := n.chains()
	if len(all) == 0 || n.cfg.Summarizer.TokensPerHour == 0 {
		return
	}
	if err := all[0].Share(ctx, n.name, n.log); err != nil && ctx.Err() == nil {
		n.slog.Warn("what has been spent on models before cannot be read", "error", err)
	}
	n.add("spending", func(ctx context.Context) error {
		for {
			if err := await.Sleep(ctx, learnEvery); err != nil {
				return err
			}
			if err := all[0].Learn(ctx); err != nil && ctx.Err() == nil {
				n.slog.Warn("what other processes have spent on models cannot be read", "error", err)
			}
		}
	})
}

// serveModels tells operators and other processes about this one's models.
func (n *Node) serveModels() {
	if len(n.chains()) == 0 {
		return
	}
	n.metrics.WatchModels(n.states)
	if !n.reachable() {
		return
	}
	n.add("models", func(ctx context.Context) error {
		sub, err := natsmicro.ServeModels(n.conn, n.modelProcess)
		if err != nil {
			return err
		}
		<-ctx.Done()
		return sub.Unsubscribe()
	})
}

func (n *Node) modelProcess() api.ModelProcess {
	host, _ := os.Hostname()
	return api.ModelProcess{Process: fmt.Sprintf("%s %d", host, os.Getpid()), Models: n.states(), Spending: n.chains()[0].Spending()}
}

// modelStates are those of every process that asks models.
func (n *Node) modelStates(ctx context.Context) []api.ModelProcess {
	if n.cfg.NATS != "" {
		return natsmicro.GatherModels(ctx, n.conn)
	}
	if len(n.chains()) == 0 {
		return []api.ModelProcess{}
	}
	return []api.ModelProcess{n.modelProcess()}
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
