// Package transcript reads the formats agents keep their conversations in and
// writes the formats providers accept.
//
// Reading turns foreign lines into turns of this project, each beside its
// verbatim source; what is not a turn is named as skipped, what is broken as
// rejected, and nothing is dropped in silence. Writing turns neutral messages
// into what an API accepts.
//
// It is pure: readers and writers in, values out. It may import events only.
package transcript
