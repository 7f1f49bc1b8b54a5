package node

import (
	"context"

	"lcm/internal/api"
	"lcm/internal/projector"
)

// TEMPORARY until the projector returns pointers.
type shim struct{ *projector.Service }

func ptr[T any](v T, err error) (*T, error) { return &v, err }

func (s shim) Lookup(ctx context.Context, q api.LookupRequest) (*api.LookupReply, error) {
	return ptr(s.Service.Lookup(ctx, q))
}
func (s shim) View(ctx context.Context, q api.ViewRequest) (*api.ViewReply, error) {
	return ptr(s.Service.View(ctx, q))
}
func (s shim) Turns(ctx context.Context, q api.TurnsRequest) (*api.TurnsReply, error) {
	return ptr(s.Service.Turns(ctx, q))
}
func (s shim) Node(ctx context.Context, q api.NodeRequest) (*api.NodeReply, error) {
	return ptr(s.Service.Node(ctx, q))
}
func (s shim) File(ctx context.Context, q api.FileRequest) (*api.FileReply, error) {
	return ptr(s.Service.File(ctx, q))
}
func (s shim) Sessions(ctx context.Context, q api.SessionsRequest) (*api.SessionsReply, error) {
	return ptr(s.Service.Sessions(ctx, q))
}
func (s shim) Resolve(ctx context.Context, q api.ResolveRequest) (*api.ResolveReply, error) {
	return ptr(s.Service.Resolve(ctx, q))
}
func (s shim) Grep(ctx context.Context, q api.GrepRequest) (*api.GrepReply, error) {
	return ptr(s.Service.Grep(ctx, q))
}
func (s shim) Status(ctx context.Context) (*api.StatusReply, error) { return ptr(s.Service.Status(ctx)) }
func (s shim) Doctor(ctx context.Context, q api.DoctorRequest) (*api.DoctorReply, error) {
	return ptr(s.Service.Doctor(ctx, q))
}
func (s shim) Rebuild(ctx context.Context, q api.RebuildRequest) (*api.RebuildReply, error) {
	return ptr(s.Service.Rebuild(ctx, q))
}
