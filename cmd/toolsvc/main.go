// Command toolsvc is one role as a process of its own, on an external NATS server.
// It offers the tools over HTTP and NATS micro, and keeps nothing.
package main

import (
	"os"

	"lcm/internal/node"
)

func main() {
	os.Exit(node.Main("toolsvc", node.Roles{Toolsvc: true}, os.Args[1:], os.Stdout, os.Stderr))
}
