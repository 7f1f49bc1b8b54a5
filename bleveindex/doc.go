// Package bleveindex keeps the projector's full-text index in one Bleve
// directory. It returns positions only: texts, snippets and everything else
// come from the rows.
//
// Documents. One per turn, per node and per file descriptor of a turn; the id
// is "<seq: 16 hex digits><t|s|f><part: 4 hex digits>", so ids have one length
// and sort by position: newest first is a sort by -_id. Nothing is stored.
//
//	text     code analyzer (words.go), with term vectors: phrases need positions
//	prose    rank.Terms of the text with its date, without positions
//	grams    trigrams of the folded text, where Options ask for them (trigram.go)
//	tenant   keyword      session  keyword
//	role     keyword      kind     keyword: turn, summary, file
//	depth    keyword, decimal, -1 where there is none
//	time     keywords, milliseconds in several precisions (timeterm.go)
//
// Internal row "lcm" holds the schema version, the log's epoch and the last
// position whose documents are in the index; it is written in the batch that
// writes those documents.
//
// The directory is disposable: whatever is wrong with it is ErrDamaged, one of
// another build api.ErrOutdated, and
// the caller makes a new one and fills it from the rows.
//
// The package may import the pure packages, internal/api and internal/problem;
// never a service or another adapter.
package bleveindex
