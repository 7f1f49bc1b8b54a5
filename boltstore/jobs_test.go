package boltstore

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lcm/internal/api"
	"lcm/mapjob"
)

// TestLargeJobRows: a definition and a result of the greatest size that is
// kept in rows come back, as do the checkpoint and small ones.
func TestLargeJobRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.bolt")
	j, err := OpenJobs(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	ref := mapjob.Ref{Tenant: "t", Job: "j"}
	at := api.Checkpoint{Epoch: "E", Seq: 7}
	job := &mapjob.Job{Ref: ref, State: mapjob.Running, Definition: mapjob.Definition{Prompt: strings.Repeat("p", mapjob.MaxPromptBytes)}}
	value, _ := json.Marshal(strings.Repeat("v", mapjob.InlineBytes-2))
	rows := []*mapjob.Row{{Seq: 6}, {Seq: 7}}
	rows[0].Row, rows[0].Value = 1, json.RawMessage(`"small"`)
	rows[1].Row, rows[1].Value = 2, value
	err = j.Update(func(tx api.JobTx) error {
		if err := tx.PutJob(job); err != nil {
			return err
		}
		for _, r := range rows {
			if err := tx.PutRow(ref, r); err != nil {
				return err
			}
		}
		return tx.SetCheckpoint(at)
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []*mapjob.Row
	err = j.View(func(tx api.JobTx) error {
		if c, err := tx.Checkpoint(); err != nil || !cmp.Equal(c, at) {
			t.Errorf("checkpoint %+v, %v", c, err)
		}
		if have, err := tx.Job(ref); err != nil || have.Definition.Prompt != job.Definition.Prompt {
			t.Errorf("the job did not come back: %v", err)
		}
		return tx.RowsFrom(ref, 1, func(r *mapjob.Row) (bool, error) {
			got = append(got, r)
			return true, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Error(diff)
	}
}
