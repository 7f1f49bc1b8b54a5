// Command ingestor is one role as a process of its own, on an external NATS server.
// It turns what agents publish into the events of the log.
package main

import (
	"os"

	"lcm/internal/node"
)

func main() {
	os.Exit(node.Main("ingestor", node.Roles{Ingestor: true}, os.Args[1:], os.Stdout, os.Stderr))
}
