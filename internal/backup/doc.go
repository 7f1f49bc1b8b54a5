// Package backup is the independent copy of a log: segments in a directory,
// readable without NATS, JetStream or this program.
//
//	LCM-<first>-<last>.seg   events of the log, positions of 20 digits
//	LCM_IN.seg               what the inbox held when the last backup was made
//	LCM_DEAD.seg             likewise the dead letters
//	LCM_JOB.seg              the events of map jobs
//	OBJ_LCM_MAP.seg          their inputs, as the object store has them
//	*.part, *.new            a backup that is being made, or was interrupted
//
// A segment is
//
//	one line of JSON: the Header, ended by a newline
//	frames: kind (1 byte), length of the body (uvarint), body,
//	        CRC-32C of all three (4 bytes, little-endian)
//	the last frame, of kind 'z': the Trailer as JSON, with the SHA-256 of every
//	        byte before that frame
//
// Kinds: 'e' a message: position (uvarint), subject, number of headers
// (uvarint), names and values in the order of the names, payload; strings and
// payload are length (uvarint) and bytes. 'l' a position that the log could
// not give: position (uvarint), reason. Headers that begin with Nats- belong
// to the server that stored the message and are left out.
//
// Segments of the log follow each other: Header.After and AfterHash are the
// Trailer.Last and LastHash of the one before. A finished segment is never
// written again. The other streams change in place, or lose what is
// over, so every backup copies them whole, before it copies the log: a message
// that is acknowledged meanwhile is then in both, and recognised. Jobs come
// before their inputs: a job that is in the copy has its input there.
//
// codec.go is pure; export.go reads a log through a port; dir.go keeps the
// files; restore.go writes a log through a port. The package must never import
// an engine or an adapter.
package backup
