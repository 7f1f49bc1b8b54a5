// Package events is the wire contract of the log: the payload of every event
// ever published, the headers around it, the subjects it is published on, and
// the chain that ties the events of one subject together.
//
// It is the lowest package of the module. It must never import an engine
// (NATS, bbolt, Bleve), a clock, or another package of this module: whoever
// holds a copy of the log and this package can read everything in it.
//
// Every version of every event has a frozen fixture under testdata; a change
// that breaks one of them breaks somebody's only copy.
package events
