package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lcm/internal/problem"
)

// The streams.
const (
	StreamLog   = "LCM"
	StreamInbox = "LCM_IN"
	StreamTasks = "LCM_TASK"
	StreamDead  = "LCM_DEAD"
)

// Metadata of the log stream.
const (
	metaEpoch      = "lcm-epoch"
	metaPartitions = "lcm-partitions"
)

// noWindow is the smallest duplicate window the server takes. Nobody relies on
// Nats-Msg-Id: it is stream-wide, so one agent's id would swallow another
// session's message, and a long window makes a damaged block slow to open.
// Agents must not set it either: within a few windows it swallows.
const noWindow = 100 * time.Millisecond

// inboxPartitions is fixed: it bounds how many messages are handled at once.
const inboxPartitions = 16

func logConfig(epoch string, o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: StreamLog, Subjects: []string{"lcm.ev.*.*.*", "lcm.dag.*.*.*"},
		Description: "the event log: the lossless store of every session",
		Storage:     jetstream.FileStorage, Compression: jetstream.S2Compression,
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		DenyDelete: true, DenyPurge: true, AllowDirect: true, AllowAtomicPublish: true,
		Duplicates: noWindow, Replicas: o.Replicas,
		Metadata: map[string]string{metaEpoch: epoch, metaPartitions: strconv.Itoa(o.Partitions)},
	}
}

func inboxConfig(o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: StreamInbox, Subjects: []string{"lcm.in.*.*"},
		SubjectTransform: &jetstream.SubjectTransformConfig{
			Source:      "lcm.in.*.*",
			Destination: fmt.Sprintf("lcm.in.{{partition(%d,1,2)}}.{{wildcard(1)}}.{{wildcard(2)}}", inboxPartitions),
		},
		Description: "turns that agents publish; a PubAck here is an acknowledgement",
		Storage:     jetstream.FileStorage, Compression: jetstream.S2Compression,
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgsPerSubject: -1, MaxMsgSize: -1,
		AllowDirect: true, Duplicates: noWindow, Replicas: o.Replicas,
	}
}

func taskConfig(o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: StreamTasks, Subjects: []string{"lcm.task.*.*.*"},
		Description: "sessions that are due; disposable, dispatched again each second",
		Storage:     jetstream.MemoryStorage,
		Retention:   jetstream.WorkQueuePolicy,
		// One task per session and class, pending or in flight.
		Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 1,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1,
		Duplicates: noWindow, Replicas: o.Replicas,
	}
}

func deadConfig(o Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: StreamDead, Subjects: []string{"lcm.dead.*.*.*"},
		Description: "refused inbox messages and import lines with the reason",
		Storage:     jetstream.FileStorage, Compression: jetstream.S2Compression,
		Retention: jetstream.LimitsPolicy,
		// The hash is a subject token: the second letter with it is refused,
		// for ever, without an index of ids.
		Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 1,
		MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1,
		AllowDirect: true, Duplicates: noWindow, Replicas: o.Replicas,
	}
}

// streamInfo returns nil for a stream that does not exist.
func streamInfo(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("stream "+name, err)
	}
	return s.CachedInfo(), nil
}

// ensure makes the streams what they should be, or says why it will not.
//
// The log is created first: a log beside a missing inbox may be a creation
// that was interrupted, a missing log beside the others never is.
func ensure(ctx context.Context, js jetstream.JetStream, o Options) (*jetstream.StreamInfo, error) {
	log, err := streamInfo(ctx, js, StreamLog)
	if err != nil {
		return nil, err
	}
	if log == nil {
		if log, err = createLog(ctx, js, o); err != nil {
			return nil, err
		}
	}
	if err := checkLog(log); err != nil {
		return nil, err
	}
	o.Replicas = log.Config.Replicas
	for _, c := range []jetstream.StreamConfig{inboxConfig(o), deadConfig(o)} {
		if err := ensureSide(ctx, js, o, c, log); err != nil {
			return nil, err
		}
	}
	// The tasks live in memory and are gone after every restart of a server.
	return log, ensureTasks(ctx, js, o)
}

func createLog(ctx context.Context, js jetstream.JetStream, o Options) (*jetstream.StreamInfo, error) {
	for _, name := range []string{StreamInbox, StreamDead} {
		other, err := streamInfo(ctx, js, name)
		if err != nil {
			return nil, err
		}
		if other != nil {
			return nil, problem.New(problem.Damaged, "the log stream %s is missing beside %s", StreamLog, name).
				WithHint("it is never recreated in silence: restore a backup with `lcm restore`, or delete the %s stream and run `lcm init` to begin anew", name)
		}
	}
	if !o.Create {
		return nil, problem.New(problem.Unavailable, "there is no log here: the stream %s does not exist", StreamLog).
			WithHint("create it with `lcm init`")
	}
	s, err := js.CreateStream(ctx, logConfig(o.newEpoch(), o))
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody was faster
		s, err = js.Stream(ctx, StreamLog)
	}
	if err != nil {
		return nil, unavailable("create stream "+StreamLog, err)
	}
	return s.CachedInfo(), nil
}

// ensureSide creates the inbox or the dead letters of a log that is empty
// still. Beside a used log they held acknowledged messages: their absence is
// damage, unless the operator says otherwise.
func ensureSide(ctx context.Context, js jetstream.JetStream, o Options, c jetstream.StreamConfig, log *jetstream.StreamInfo) error {
	have, err := streamInfo(ctx, js, c.Name)
	if err != nil || have != nil {
		return err
	}
	if !o.Create {
		return problem.New(problem.Unavailable, "the stream %s does not exist", c.Name).WithHint("create it with `lcm init`")
	}
	if log.State.LastSeq > 0 && !o.Repair {
		return problem.New(problem.Damaged, "the stream %s is missing beside a log of %d events: messages it held are lost", c.Name, log.State.LastSeq).
			WithHint("restore a backup, or create it anew with `lcm init`")
	}
	return createStream(ctx, js, c)
}

func ensureTasks(ctx context.Context, js jetstream.JetStream, o Options) error {
	have, err := streamInfo(ctx, js, StreamTasks)
	if err != nil || have != nil {
		return err
	}
	return createStream(ctx, js, taskConfig(o))
}

func createStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) error {
	_, err := js.CreateStream(ctx, c)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return unavailable("create stream "+c.Name, err)
	}
	return nil
}

// checkLog refuses a log that has lost events or that its settings would let
// lose some.
func checkLog(info *jetstream.StreamInfo) error {
	c, st := info.Config, info.State
	if from := c.Metadata[metaRestoring]; from != "" {
		return problem.New(problem.Damaged, "the restore of log %s into this one was interrupted at position %d", from, st.LastSeq).
			WithHint("run `lcm restore` again: it goes on where it stopped")
	}
	for _, s := range []struct {
		ok   bool
		what string
	}{
		{c.Metadata[metaEpoch] != "", "has no epoch in its metadata"},
		{c.Metadata[metaPartitions] != "", "has no partition count in its metadata"},
		{c.Storage == jetstream.FileStorage, "is not kept in files"},
		{c.Retention == jetstream.LimitsPolicy, "does not keep what was read"},
		{c.Discard == jetstream.DiscardNew, "discards old events"},
		{c.MaxAge == 0, "lets events expire"},
		{c.MaxMsgsPerSubject <= 0, "limits the events of a session"},
		{c.AllowDirect, "does not allow direct reads"},
		{c.AllowAtomicPublish, "does not allow atomic batches"},
		{c.Duplicates <= time.Second, "has a duplicate window"},
	} {
		if !s.ok {
			return problem.New(problem.Damaged, "the stream %s %s", StreamLog, s.what).
				WithHint("this is not a log that lcm made; see `nats stream info %s`", StreamLog)
		}
	}
	if p, err := strconv.Atoi(c.Metadata[metaPartitions]); err != nil || p < 1 {
		return problem.New(problem.Damaged, "the stream %s has partition count %q", StreamLog, c.Metadata[metaPartitions])
	}
	want := uint64(0)
	if st.LastSeq > 0 {
		want = st.LastSeq - st.FirstSeq + 1
	}
	if st.Msgs != want || st.NumDeleted != 0 || (st.LastSeq > 0 && st.FirstSeq != 1) {
		return problem.New(problem.Damaged, "the log holds %d events between positions %d and %d: some are missing", st.Msgs, st.FirstSeq, st.LastSeq).
			WithHint("stop, keep the files, and restore from a backup with `lcm restore`, or see `lcm doctor --repair --from DIR`")
	}
	return nil
}

func unavailable(what string, err error) error {
	return problem.New(problem.Unavailable, "%s: %w", what, err)
}
