// Command mapworker is one role as a process of its own, on an external NATS server.
// It works on the rows of map jobs. Start as many as you like: none of them
// keeps anything.
package main

import (
	"os"

	"lcm/internal/node"
)

func main() {
	os.Exit(node.Main("mapworker", node.Roles{MapWorkers: true}, os.Args[1:], os.Stdout, os.Stderr))
}
