// Command condenser is one role as a process of its own, on an external NATS server.
// It makes summaries of sessions that outgrow their window. Start as many as
// you like: none of them keeps anything.
package main

import (
	"os"

	"lcm/internal/node"
)

func main() {
	os.Exit(node.Main("condenser", node.Roles{Condenser: true}, os.Args[1:], os.Stdout, os.Stderr))
}
