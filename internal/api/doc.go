// Package api holds the requests and answers that the services exchange, in
// one process as values and between processes as JSON, and the JSON that the
// command line and HTTP print. Consumers declare the small ports they need;
// the services and their NATS clients implement them.
//
// It may import the pure packages only, never an engine.
package api
