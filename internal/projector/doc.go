// Package projector follows the log into rows and a full-text index, tells
// which sessions need condensing, and answers every read.
//
// The rows of a batch of events and the position behind it are one
// transaction; the index follows the rows by itself, from its own position.
// Both are disposable: a store or an index that is damaged or deleted is made
// anew by the same code that follows live.
//
// It works through the ports of ports.go and internal/api. It may import the
// pure packages, internal/api and internal/problem; never an adapter or an
// engine.
package projector
