package natsembed

import (
	"fmt"
	"log/slog"
)

// bridge hands the server's warnings and errors to slog. Notices and below are
// dropped: one line per state change is ours to write.
type bridge struct{ log *slog.Logger }

func (b *bridge) Noticef(string, ...any) {}
func (b *bridge) Debugf(string, ...any)  {}
func (b *bridge) Tracef(string, ...any)  {}

func (b *bridge) Warnf(format string, v ...any) {
	b.log.Warn("embedded NATS", "text", fmt.Sprintf(format, v...))
}

func (b *bridge) Errorf(format string, v ...any) {
	b.log.Error("embedded NATS", "text", fmt.Sprintf(format, v...))
}

// Fatalf does not end the process: Start and Open report what does not work.
func (b *bridge) Fatalf(format string, v ...any) {
	b.log.Error("embedded NATS, fatal", "text", fmt.Sprintf(format, v...))
}
