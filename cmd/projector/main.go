// Command projector is one role as a process of its own, on an external NATS server.
// It follows the log into rows and a full-text index, answers reads and
// dispatches due sessions.
package main

import (
	"os"

	"lcm/internal/node"
)

func main() {
	os.Exit(node.Main("projector", node.Roles{Projector: true}, os.Args[1:], os.Stdout, os.Stderr))
}
