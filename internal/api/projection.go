package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"lcm/events"
	"lcm/rank"
	"lcm/session"
)

// The types that cross the ports between the projector and its two stores:
// rows in bbolt, documents in Bleve. They stand here because a service never
// imports an adapter and an adapter never imports a service.

// Checkpoint is how far a store has followed its log.
type Checkpoint struct {
	Epoch string `json:"epoch"` // of the log, "" in a new store
	Seq   uint64 `json:"seq"`   // last position applied, 0 = none
	// Hash of the record at Seq (ChainHash over the zero hash): a witness
	// against a log that was changed behind the projection.
	Hash events.Hash `json:"hash"`
	// Partitions held here, nil = all. A store never changes them.
	Partitions []int `json:"partitions,omitempty"`
}

// FeedRow says what became of a stream position that was accepted as a turn
// (session.RowEntry) or as a node (session.RowNode).
type FeedRow struct {
	Seq  uint64
	Ref  events.Ref
	Kind session.RowKind
	N    uint64 // entry or node
}

// RejectedEvent is an event that did not count. Ref is zero where its subject
// names no session.
type RejectedEvent struct {
	Seq     uint64      `json:"seq"`
	Subject string      `json:"subject"`
	Ref     events.Ref  `json:"ref"`
	Type    events.Type `json:"type,omitempty"`
	Reason  string      `json:"reason"`
}

// Counts of everything a store holds.
type Counts struct {
	Sessions int    `json:"sessions"`
	Events   uint64 `json:"events"` // of the partitions held here
	Entries  uint64 `json:"entries"`
	Nodes    uint64 `json:"nodes"`
	Files    uint64 `json:"files"` // file descriptors in entries
	// Removed: entries off their session's path, and superseded nodes.
	Removed  int64  `json:"removed"`
	Rejected uint64 `json:"rejected"`
	Unknown  uint64 `json:"unknown"`
	Lost     uint64 `json:"lost,omitempty"` // positions that could not be recovered
}

// RowsTx is the part of a transaction that holds sessions.
type RowsTx interface {
	// Rows of a session. Writing the first row makes the session known; an
	// unknown one reads as empty. Used by one goroutine.
	Rows(ref events.Ref) (session.Rows, error)
	// Known reports whether the session has rows.
	Known(ref events.Ref) bool
	// Sessions of a tenant by name: those with the prefix, behind after.
	Sessions(tenant, prefix, after string, limit int) ([]string, error)
	// EachSession walks all sessions in the order of their first event. Pass
	// 0, then the cursor of the last answer; an empty page is the end.
	EachSession(after uint64, limit int) (refs []events.Ref, next uint64, err error)
}

// PositionTx is the part of a transaction that holds the position and totals.
type PositionTx interface {
	Checkpoint() (Checkpoint, error)
	SetCheckpoint(Checkpoint) error
	Counts() (Counts, error) // Sessions is kept by the store
	SetCounts(Counts) error
}

// FeedTx is the part of a transaction that maps positions to what they became.
type FeedTx interface {
	PutFeed(FeedRow) error
	// Feed returns rows behind after, ascending.
	Feed(after uint64, limit int) ([]FeedRow, error)
	// FeedBefore returns rows below seq, descending.
	FeedBefore(seq uint64, limit int) ([]FeedRow, error)
	// FeedAt returns the row at seq, nil where that position is none.
	FeedAt(seq uint64) (*FeedRow, error)
}

// MarksTx is the part of a transaction that holds lists over all sessions.
type MarksTx interface {
	// SetHot puts a session into, or takes it out of, the set of those whose
	// context is over its soft threshold.
	SetHot(ref events.Ref, hot bool) error
	Hot() ([]events.Ref, error)
	PutRejected(RejectedEvent) error
	Rejected(after uint64, limit int) ([]RejectedEvent, error)
}

// AuditTx is the part of a transaction that checks the store itself.
type AuditTx interface {
	// Digest is a hash over the canonical dump of everything: names in place
	// of internal numbers, sorted; the position is in it, the epoch is not.
	Digest() (string, error)
	// VerifyRows checks the checksums of up to limit rows behind the cursor
	// (nil at first). It names the damaged ones; a nil cursor is the end.
	VerifyRows(after []byte, limit int) (next []byte, damaged []string, err error)
}

// StoreTx is one transaction of a store. It must not be kept.
type StoreTx interface {
	RowsTx
	PositionTx
	FeedTx
	MarksTx
	AuditTx
}

// Store keeps rows and the position they were made at. Update is durable when
// it returns nil and has no effect when it returns an error; one Update runs
// at a time, beside any number of View calls, each of which sees one state.
// Damage is problem.Damaged.
type Store interface {
	Update(func(StoreTx) error) error
	View(func(StoreTx) error) error
	SizeBytes() int64
	Close() error
}

// Stores opens the projector's store and replaces it.
type Stores interface {
	// Open opens the store, making it where there is none. Damage that it can
	// recognise is moved aside, and a new store is opened in its place.
	Open() (Store, error)
	// Fresh makes an empty store beside the one in use.
	Fresh() (Store, error)
	// Promote puts an open fresh store in the place of the old one, which is
	// closed by then.
	Promote(Store) error
}

// Kinds of document in the index, as in GrepRequest.Kinds.
const (
	KindTurn    = "turn"
	KindSummary = "summary"
	KindFile    = "file"
)

// NoDepth is the depth of what is no node.
const NoDepth = -1

// IndexDoc is a text to be found. Seq, Kind and Part identify it.
type IndexDoc struct {
	Seq   uint64
	Kind  string
	Part  int // number of the file within its turn, else 0
	Ref   events.Ref
	Role  string // of a turn or file
	Depth int    // of a summary, else NoDepth
	Time  time.Time
	Text  string
}

// kindLetters of document ids.
var kindLetters = map[string]byte{KindTurn: 't', KindSummary: 's', KindFile: 'f'}

// idBytes of a document id: 16 hex digits, a letter, 4 hex digits.
const idBytes = 16 + 1 + 4

// DocID identifies a document. Ids have one length and sort by position;
// within one, the turn sorts above its files.
func DocID(seq uint64, kind string, part int) string {
	return fmt.Sprintf("%016x%c%04x", seq, kindLetters[kind], uint16(part))
}

// ParseDocID reverses DocID.
func ParseDocID(id string) (seq uint64, kind string, part int, err error) {
	if len(id) == idBytes {
		seq, err1 := strconv.ParseUint(id[:16], 16, 64)
		part, err2 := strconv.ParseUint(id[17:], 16, 16)
		for kind, letter := range kindLetters {
			if id[16] == letter && err1 == nil && err2 == nil {
				return seq, kind, int(part), nil
			}
		}
	}
	return 0, "", 0, fmt.Errorf("document id %q cannot be read", id)
}

// IndexQuery asks for documents.
type IndexQuery struct {
	Text string
	// Literals, in place of Text, narrow down where a text may hold, of each
	// list, at least one string, in any case. The answer over-matches.
	Literals [][]string
	Phrase   bool // the words in this order, next to each other; else all of them anywhere
	Tenant   string
	// Empty filters filter nothing.
	Sessions []string
	Roles    []string
	Kinds    []string
	Depths   []int
	Since    time.Time // zero = open
	Until    time.Time
	Limit    int
	After    string // DocID to go on behind, "" = from the newest
}

// IndexHit names a document.
type IndexHit struct {
	Seq  uint64
	Kind string
	Part int
	ID   string // its DocID
}

// IndexHits is one page, newest first.
type IndexHits struct {
	Hits  []IndexHit
	Total uint64 // documents that match, this page and behind it
	Loose bool   // the total is too high, or a guess: some of them may hold no match
}

// RankQuery asks for the documents that answer a question best. Words of it
// may be missing.
type RankQuery struct {
	// IndexQuery filters; its Text, where there is one, must match as in
	// Search, and a document that holds no word of the question scores 0.
	// After is not used.
	IndexQuery
	Question rank.Question
	Rules    rank.Rules
	// Stats of an earlier page keep the order as it was; nil = as they are now.
	Stats *rank.Stats
}

// RankHit is a document with its score, in which the role, the neighbours and
// the places of the words have no part yet.
type RankHit struct {
	IndexHit
	Score float64
}

// RankHits are the best documents, best first.
type RankHits struct {
	Hits  []RankHit
	Total uint64 // documents that match
	Loose bool   // as in IndexHits
	Stats rank.Stats
}

// IndexWriter makes documents and position durable together.
type IndexWriter interface {
	// Apply writes the documents of the positions up to upto. Writing one
	// again replaces it.
	Apply(docs []IndexDoc, upto uint64) error
	// Checkpoint returns what the last Apply said, and of which log.
	Checkpoint() (upto uint64, epoch string)
}

// IndexReader finds documents. Search may over-match where a word has parts;
// Locate is exact.
type IndexReader interface {
	// Search answers problem.Invalid for a text that has no words.
	Search(ctx context.Context, q IndexQuery) (IndexHits, error)
	// Narrows reports whether literals spare reading most texts.
	Narrows(literals [][]string) bool
	// Rank is Search by relevance.
	Rank(ctx context.Context, q RankQuery) (RankHits, error)
	// Locator prepares the query's text for matching single texts.
	Locator(text string, phrase bool) (Locator, error)
}

// Locator finds the words of one query in single texts, exactly those that
// Search finds.
type Locator interface {
	// Fold prepares a text, for any locator and any number of times.
	Fold(text string) FoldedText
	// Locate returns the byte ranges of the matched words in order, nil where
	// the text does not match.
	Locate(FoldedText) [][2]int
}

// FoldedText is a text without regard to case, as an index's locators read it.
type FoldedText any

// Index is a full-text index over the rows of one store. Damage is
// problem.Damaged; anyone may then throw the index away.
type Index interface {
	IndexWriter
	IndexReader
	// Docs counts documents; Verify reads every file and checks its checksum.
	Docs() (uint64, error)
	Verify() error
	SizeBytes() int64
	Close() error
}

// ErrReopen: the index in use takes no more writes, and what is on disk is whole.
var ErrReopen = errors.New("it must be opened anew")

// ErrOutdated: an index of another build's schema, or of other settings, whole
// but of no use here. It is problem.Damaged too: it is thrown away all the same.
var ErrOutdated = errors.New("it was made by another build or with other settings")

// Indexes opens the projector's index and replaces it.
type Indexes interface {
	// Open opens the index, making one of this epoch where there is none.
	Open(epoch string) (Index, error)
	// Create throws away what is there and makes an empty index.
	Create(epoch string) (Index, error)
	// Beside makes an empty index beside the one in use.
	Beside(epoch string) (Index, error)
	// Promote puts a filled index in the place of the old one, which is closed
	// by then, and returns it as it is open now.
	Promote(filled Index) (Index, error)
}
