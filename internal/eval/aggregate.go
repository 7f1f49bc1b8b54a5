package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/config"
	"lcm/internal/node"
	"lcm/internal/problem"
	"lcm/tokens"
)

// AggregateOptions of MeasureAggregate.
type AggregateOptions struct {
	Options
	Rows        int
	Seed        uint64
	Faults      float64 // share of the oracle's answers that are bad
	Concurrency int
	// Model that is asked in place of the oracle; nil = the oracle.
	Model *config.Config
}

// Aggregate is the score of one kind of question.
type Aggregate struct {
	Kind      string  `json:"kind"`
	Questions int     `json:"questions"`
	Exact     int     `json:"exact"`
	Score     float64 `json:"score"` // mean, per cent
}

// AggregateReport is the outcome of an evaluation.
type AggregateReport struct {
	Kinds   []Aggregate   `json:"kinds"` // the last one is all of them
	Rows    int           `json:"rows"`
	Tokens  int           `json:"tokens"` // of the rows
	Calls   int           `json:"calls"`
	Bad     int           `json:"bad_answers"` // of the oracle, on purpose
	Rounds  int           `json:"rounds"`      // of retries that were needed
	Elapsed time.Duration `json:"elapsed_ns"`
	Wrong   []string      `json:"wrong"` // questions that were answered wrongly
}

const (
	askLabel = "[{{id}}] What kind of answer does this question ask for?\n\n{{text}}"
	// oracleTimeout of one attempt, seconds; late answers take longer.
	oracleTimeout = 1
	// maxRounds of retries: a row whose every attempt met a fault is tried anew.
	maxRounds = 5
)

// MeasureAggregate generates rows and questions, has the label of every row
// found by a map, computes the answers from the labels by code, and scores
// them.
func MeasureAggregate(ctx context.Context, o AggregateOptions) (*AggregateReport, error) {
	if o.Rows < 1 || o.Faults < 0 || o.Faults > 0.9 {
		return nil, problem.New(problem.Invalid, "%d rows and a share of %v bad answers: at least 1, and 0 to 0.9", o.Rows, o.Faults)
	}
	set := NewSet(o.Rows, o.Seed)
	var input bytes.Buffer
	if _, err := set.WriteTo(&input); err != nil {
		return nil, err
	}
	out := &AggregateReport{Rows: o.Rows, Tokens: tokens.Count(input.String()), Wrong: []string{}}
	o.say("%d rows, %d tokens", out.Rows, out.Tokens)
	start := time.Now()
	settings := func(c *config.Config) {
		if o.Model != nil {
			c.Map, c.Summarizer = o.Model.Map, o.Model.Summarizer
		}
	}
	if o.Model == nil {
		or, err := newOracle(set, o.Faults, (oracleTimeout+1)*time.Second, o.Seed)
		if err != nil {
			return nil, err
		}
		defer or.close()
		defer func() { out.Bad = or.Bad }()
		settings = func(c *config.Config) {
			c.Map.Kind, c.Map.BaseURL, c.Map.Model, c.Map.Calls = "openai", or.url, "oracle", max(c.Map.Calls, o.Concurrency)
		}
	}
	err := withSettings(ctx, o.Options, settings, func(ctx context.Context, n *node.Node) error {
		c := client.InProcess(n.Handler())
		job, err := o.label(ctx, c, &input, out)
		if err != nil {
			return err
		}
		return answer(ctx, c, job, set.Questions(), out)
	})
	out.Elapsed = time.Since(start)
	return out, err
}

// label has every row labelled, and what failed once more.
func (o AggregateOptions) label(ctx context.Context, c *client.Client, input io.Reader, out *AggregateReport) (string, error) {
	up, err := c.MapUpload(ctx, api.Scope{}, input)
	if err != nil {
		return "", err
	}
	var names []string
	for _, l := range labels {
		names = append(names, l.name)
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"label"}, "additionalProperties": false,
		"properties": map[string]any{"label": map[string]any{"enum": names}},
	})
	if err != nil {
		return "", err
	}
	in := api.MapRunIn{InputObject: up.Object, Prompt: askLabel, OutputSchema: schema, Concurrency: o.Concurrency}
	if o.Model == nil {
		in.TimeoutSeconds = oracleTimeout
	}
	var job api.MapOut
	if err := c.Call(ctx, "llm_map", in, &job); err != nil {
		return "", err
	}
	last := time.Now()
	for {
		end, err := c.WatchMap(ctx, api.MapIn{Job: job.Job}, func(p api.MapOut) {
			if now := time.Now(); now.Sub(last) > 5*time.Second {
				last = now
				o.say("%d of %d rows, %.0f/s %s", p.OK+p.Failed, p.Rows, p.RowsPerSecond, p.Paused)
			}
		})
		if err != nil {
			return "", err
		}
		if out.Calls = end.Calls; end.Failed == 0 || out.Rounds == maxRounds {
			return job.Job, nil
		}
		out.Rounds++
		o.say("%d rows failed (%v): round %d", end.Failed, end.Kinds, out.Rounds)
		if err := c.Call(ctx, "map-retry", api.MapRetryIn{Job: job.Job}, &job); err != nil {
			return "", err
		}
	}
}

// answer asks every question of the labels and scores the answers.
func answer(ctx context.Context, c *client.Client, job string, questions []Question, out *AggregateReport) error {
	all := Aggregate{Kind: "all"}
	for _, q := range questions {
		in := q.Ask
		in.Job = job
		var a api.MapAggregateOut
		if err := c.Call(ctx, "map-aggregate", in, &a); err != nil {
			return fmt.Errorf("%s: %w", q.Text, err)
		}
		got := q.Answer(&a)
		score := q.Score(got)
		if len(out.Kinds) == 0 || out.Kinds[len(out.Kinds)-1].Kind != q.Kind {
			out.Kinds = append(out.Kinds, Aggregate{Kind: q.Kind})
		}
		for _, k := range []*Aggregate{&out.Kinds[len(out.Kinds)-1], &all} {
			k.Questions++
			k.Score += score
			if got == q.Truth {
				k.Exact++
			}
		}
		if got != q.Truth {
			out.Wrong = append(out.Wrong, fmt.Sprintf("%s %s, and not %s", q.Text, q.Truth, got))
		}
	}
	out.Kinds = append(out.Kinds, all)
	for i := range out.Kinds {
		out.Kinds[i].Score *= 100 / float64(out.Kinds[i].Questions)
	}
	if all.Questions == 0 {
		return errors.New("there was no question")
	}
	return nil
}
