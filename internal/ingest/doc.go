// Package ingest is the one append path: whatever writes to a session's
// timeline comes through here, on every role and from every source.
//
//	Append, HandleInbox, Import   what callers have: turns of any origin
//	   prepare.go                 tokens, file descriptors, the size limit
//	   attempt.go                 what the projection knows; retries
//	   committer.go               one goroutine collects and stages; two commits under way
//	   stage.go, lane.go          identity, entry numbers, versions, the chain
//	   Log                        the log, under optimistic concurrency
//
// A turn is new where three things hold together: the projection at watermark
// A does not know its id, the session's lane has not seen it after A, and the
// subject still ends where the lane says. A lane that has every id of its
// session is not asked about. Whatever else happens (a conflict,
// a time-out, another writer) the lane is dropped, the projection is asked
// again at the subject's new end, and the turn is judged anew.
//
// It imports pure packages, internal/api and internal/problem, never an
// adapter: Log and Lookup are its ports.
package ingest
