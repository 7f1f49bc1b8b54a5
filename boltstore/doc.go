// Package boltstore keeps the projector's rows in one bbolt file.
//
// Layout. All numbers are 8 bytes big-endian, so keys sort as numbers do.
//
//	meta      "schema"      → "<layout>.<session.SchemaVersion>"
//	          "checkpoint"  → api.Checkpoint, JSON
//	          "counts"      → api.Counts, JSON (its Sessions is the name count)
//	name      <len tenant: 1 byte><tenant><session> → ordinal
//	session   ordinal → <len tenant><tenant><session>
//	rows      ordinal, row kind (1 byte), row key → CRC-32 (4 bytes), row value
//	feed      stream sequence → ordinal, row kind (1 byte), entry or node
//	hot       ordinal → ""   sessions over their soft threshold
//	rejected  stream sequence → api.RejectedEvent, JSON
//
// A session's ordinal is given with its first row and never changes; it is
// internal to the file, the digest does not see it. A row key longer than
// maxRowKey bytes (a tool call id may have any length, a bbolt key may not) is
// replaced by its beginning and its SHA-256.
//
// bbolt's own check does not notice a flipped byte in a value, so every row
// carries a CRC-32 (IEEE, over key and value) that is verified on read. bbolt
// panics on damaged pages; the package turns that into ErrDamaged, so that the
// caller can move the file aside and rebuild it from the log. A closed store has
// the checksums of its whole file beside it, path.sum, and is compared with them
// when it is opened (sums.go): what no row notices, a page number or a key on
// the way to it, is noticed there.
//
// Commits are synchronous. The file never shrinks. The package may import the
// pure packages, internal/api and internal/problem; never a service or another
// adapter.
package boltstore
