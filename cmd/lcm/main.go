// Command lcm is the whole of lossless context management in one binary: every
// role over an embedded log (`lcm serve`), and every command against a running
// server or straight against a data directory.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker for releases.
var version = "dev"

func main() {
	// `lcm show | head`: a reader that has seen enough is no reason to leave the
	// store as after a crash. The write fails instead, and the command ends.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one command line and returns its exit code. End-to-end tests
// call it as main does.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{ctx: ctx, args: args, in: stdin, out: stdout, err: stderr, environ: os.Environ()}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return a.exit(cmd, err)
}
