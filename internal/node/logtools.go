package node

import (
	"context"
	"io"

	"lcm/internal/api"
	"lcm/internal/backup"
	"lcm/internal/verify"
	"lcm/natslog"
)

func verifier(l *natslog.Log) func(context.Context, api.VerifyIn, func(api.VerifyProgress)) (*api.VerifyReply, error) {
	return func(ctx context.Context, in api.VerifyIn, progress func(api.VerifyProgress)) (*api.VerifyReply, error) {
		return verify.Run(ctx, l, verify.Options{Limit: in.Limit, Progress: progress})
	}
}

func exporter(l *natslog.Log) func(context.Context, api.ExportIn, io.Writer) error {
	return func(ctx context.Context, in api.ExportIn, w io.Writer) error {
		return backup.Export(ctx, source{l}, in, w)
	}
}

// source is the log as a backup reads it.
type source struct{ *natslog.Log }

func (s source) Inbox(ctx context.Context, each func(backup.Message) error) error {
	return s.Pending(ctx, natslog.StreamInbox, each)
}

func (s source) DeadLetters(ctx context.Context, each func(backup.Message) error) error {
	return s.Pending(ctx, natslog.StreamDead, each)
}

func (s source) Maps(ctx context.Context, stream string, each func(backup.Message) error) error {
	return s.Pending(ctx, stream, each)
}

// Verify reads the whole log of this node and checks it.
func (n *Node) Verify(ctx context.Context, in api.VerifyIn) (*api.VerifyReply, error) {
	return verifier(n.log)(ctx, in, nil)
}
