// Command mapper is one role as a process of its own, on an external NATS server.
// It keeps map jobs and works on their rows. Start one; more workers are
// mapworker's.
package main

import (
	"os"

	"lcm/internal/node"
)

func main() {
	os.Exit(node.Main("mapper", node.Roles{Mapper: true, MapWorkers: true}, os.Args[1:], os.Stdout, os.Stderr))
}
