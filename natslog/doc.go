// Package natslog keeps the log, its inbox, its tasks and its dead letters in
// JetStream streams: append, follow, read, queue.
//
// It is an adapter: it imports the events contract, internal/api and
// internal/problem, and no other adapter. The services declare the ports they
// need; Log satisfies them. What a turn is, which events follow each other and
// who wins is none of its business: it stores messages under optimistic
// concurrency and tells in one vocabulary what became of them.
//
// Streams (names, subjects and settings in streams.go):
//
//	LCM       lcm.ev.<part>.<tenant>.<session>, lcm.dag.<part>.<tenant>.<session>
//	LCM_IN    lcm.in.<tenant>.<session>, stored as lcm.in.<part>.<tenant>.<session>
//	LCM_TASK  lcm.task.<urgent|normal>.<tenant>.<session>
//	LCM_DEAD  lcm.dead.<hash>.<tenant>.<session>
package natslog
