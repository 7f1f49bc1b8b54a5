// Package node wires roles to engines: one process, running one or more of
// ingestor, condenser, projector and toolsvc, over an embedded server or an
// external one. The same functions serve both, so the two cannot drift.
//
// It is wiring: it may import everything and decides nothing.
package node
