package events

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The headers of every event. Values are ASCII.
const (
	HeaderType    = "Lcm-Type"
	HeaderSchema  = "Lcm-Schema"  // version of the payload's schema, decimal
	HeaderVersion = "Lcm-Version" // contiguous per subject, from 1, decimal
	HeaderPrev    = "Lcm-Prev"    // chain hash of the last valid predecessor, hex; absent on the first
	HeaderTime    = "Lcm-Time"    // ingest time, RFC 3339 with nanoseconds, UTC, monotone within a session
)

// headerPrefix marks the headers that the chain covers.
const headerPrefix = "Lcm-"

// Hash is a link of a subject's chain. The zero Hash precedes the first event.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes the hash as hex, the zero hash as "".
func (h Hash) MarshalText() ([]byte, error) {
	if h == (Hash{}) {
		return nil, nil
	}
	return []byte(h.String()), nil
}

// UnmarshalText reverses MarshalText.
func (h *Hash) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*h = Hash{}
		return nil
	}
	if hex.DecodedLen(len(b)) != len(h) {
		return fmt.Errorf("hash of %d hex digits, want %d", len(b), hex.EncodedLen(len(h)))
	}
	_, err := hex.Decode(h[:], b)
	return err
}

// Header of a message: names and first values. Names are case-sensitive.
type Header map[string]string

// Message is an event as it is published, free of any engine.
type Message struct {
	Subject string
	Header  Header
	Data    []byte
}

// Record is an event as it stands in the log: one message, or the chunks of a
// large one put together.
type Record struct {
	Message
	Seq uint64 // position in the stream, from 1; of several messages the last one's
	// Messages that it takes, contiguous; 0 is one.
	Messages int
	// Broken: why its messages, which are chunks, make no event; "" = they do.
	// It then has the first one's headers and what there is of the payload.
	Broken string
}

// First is the position of the event's first message.
func (r Record) First() uint64 { return r.Seq + 1 - uint64(max(r.Messages, 1)) }

// Envelope reads the headers. The error is ErrMalformed.
func (r Record) Envelope() (Envelope, error) {
	if r.Broken != "" {
		return Envelope{Type: Type(r.Header[HeaderType])}, fmt.Errorf("%w: %s", ErrMalformed, r.Broken)
	}
	return r.Message.Envelope()
}

// Envelope is what the headers say.
type Envelope struct {
	Type    Type
	Schema  int
	Version uint64
	Prev    Hash
	Time    time.Time
}

// schemas is the newest schema version of each event this build writes.
var schemas = map[Type]int{
	TypeTurnAppended: 1, TypeLeafMoved: 1, TypeSessionConfigured: 1, TypeHistoryCompacted: 1,
	TypeNodeCommitted: 1, TypeCutCommitted: 1, TypePassStalled: 1, TypePositionLost: 2,
}

// Errors of decoding. Both make an event invalid, never its session unreadable.
var (
	// ErrUnknown: a type or schema version this build does not know. Such
	// events are skipped and counted; they keep their place in the chain.
	ErrUnknown = errors.New("unknown event type or schema version")
	// ErrMalformed: headers or payload that no build can have written.
	ErrMalformed = errors.New("malformed event")
)

// Payload is one of the event structs of this package, by pointer.
type Payload interface{ EventType() Type }

// EventType implementations.
func (*TurnAppended) EventType() Type      { return TypeTurnAppended }
func (*LeafMoved) EventType() Type         { return TypeLeafMoved }
func (*SessionConfigured) EventType() Type { return TypeSessionConfigured }
func (*HistoryCompacted) EventType() Type  { return TypeHistoryCompacted }
func (*NodeCommitted) EventType() Type     { return TypeNodeCommitted }
func (*CutCommitted) EventType() Type      { return TypeCutCommitted }
func (*PassStalled) EventType() Type       { return TypePassStalled }
func (*PositionLost) EventType() Type      { return TypePositionLost }

func newPayload(t Type) Payload {
	switch t {
	case TypeTurnAppended:
		return &TurnAppended{}
	case TypeLeafMoved:
		return &LeafMoved{}
	case TypeSessionConfigured:
		return &SessionConfigured{}
	case TypeHistoryCompacted:
		return &HistoryCompacted{}
	case TypeNodeCommitted:
		return &NodeCommitted{}
	case TypeCutCommitted:
		return &CutCommitted{}
	case TypePassStalled:
		return &PassStalled{}
	case TypePositionLost:
		return &PositionLost{}
	}
	return nil
}

// Link is the head of a chain: the version and hash of its last valid event.
type Link struct {
	Version uint64 `json:"version"`
	Hash    Hash   `json:"hash"`
}

// Encode builds the message that follows link on subject. It returns the
// message and the link after it.
func Encode(subject string, p Payload, at time.Time, link Link) (Message, Link, error) {
	data, err := marshal(p)
	if err != nil {
		return Message{}, link, fmt.Errorf("encode %s: %w", p.EventType(), err)
	}
	m, next := Seal(subject, p.EventType(), data, at, link)
	return m, next, nil
}

// Seal puts a payload of the newest schema into the envelope that follows link.
func Seal(subject string, t Type, data []byte, at time.Time, link Link) (Message, Link) {
	next := link.Version + 1
	h := Header{
		HeaderType:    string(t),
		HeaderSchema:  strconv.Itoa(schemas[t]),
		HeaderVersion: strconv.FormatUint(next, 10),
		HeaderTime:    at.UTC().Format(time.RFC3339Nano),
	}
	if link.Hash != (Hash{}) {
		h[HeaderPrev] = link.Hash.String()
	}
	m := Message{Subject: subject, Header: h, Data: data}
	return m, Link{Version: next, Hash: m.ChainHash(link.Hash)}
}

// ChainHash is SHA-256 over the length-prefixed previous hash, subject, sorted
// Lcm-* headers (name, value) and payload. Lengths are 8 bytes big-endian.
func (m Message) ChainHash(prev Hash) Hash {
	var few [12]string // an event has five
	names := few[:0]
	for n := range m.Header {
		if strings.HasPrefix(n, headerPrefix) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	block := scratch.Get().(*[]byte)
	defer giveBack(block)
	buf := (*block)[:0]
	put := func(s string) {
		buf = binary.BigEndian.AppendUint64(buf, uint64(len(s)))
		buf = append(buf, s...)
	}
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(prev)))
	buf = append(buf, prev[:]...)
	put(m.Subject)
	for _, n := range names {
		put(n)
		put(m.Header[n])
	}
	buf = binary.BigEndian.AppendUint64(buf, uint64(len(m.Data)))
	if len(m.Data) > maxScratch { // hashed where it is
		h := sha256.New()
		h.Write(buf)
		h.Write(m.Data)
		*block = buf
		var sum Hash
		h.Sum(sum[:0])
		return sum
	}
	buf = append(buf, m.Data...)
	*block = buf
	return sha256.Sum256(buf)
}

// Envelope reads the headers. The error is ErrMalformed.
func (m Message) Envelope() (Envelope, error) {
	e := Envelope{Type: Type(m.Header[HeaderType])}
	if e.Type == "" {
		return e, fmt.Errorf("%w: no %s header", ErrMalformed, HeaderType)
	}
	if place, ok := m.Header[HeaderChunk]; ok {
		return e, fmt.Errorf("%w: chunk %s of a large event", ErrMalformed, clip(place, 40))
	}
	var err error
	if e.Schema, err = strconv.Atoi(m.Header[HeaderSchema]); err != nil || e.Schema < 1 {
		return e, fmt.Errorf("%w: %s is %q", ErrMalformed, HeaderSchema, clip(m.Header[HeaderSchema], 40))
	}
	if e.Version, err = strconv.ParseUint(m.Header[HeaderVersion], 10, 64); err != nil || e.Version == 0 {
		return e, fmt.Errorf("%w: %s is %q", ErrMalformed, HeaderVersion, clip(m.Header[HeaderVersion], 40))
	}
	if err = e.Prev.UnmarshalText([]byte(m.Header[HeaderPrev])); err != nil {
		return e, fmt.Errorf("%w: %s: %v", ErrMalformed, HeaderPrev, err)
	}
	if e.Time, err = time.Parse(time.RFC3339Nano, m.Header[HeaderTime]); err != nil {
		return e, fmt.Errorf("%w: %s is %q", ErrMalformed, HeaderTime, clip(m.Header[HeaderTime], 40))
	}
	e.Time = e.Time.UTC()
	return e, nil
}

// Follows checks that the event stands right after link in its chain, and
// returns the link after it. A broken chain is ErrMalformed.
func (m Message) Follows(e Envelope, link Link) (Link, error) {
	if e.Version != link.Version+1 {
		return link, fmt.Errorf("%w: version %d after %d", ErrMalformed, e.Version, link.Version)
	}
	if e.Prev != link.Hash {
		return link, fmt.Errorf("%w: version %d does not carry the hash of version %d", ErrMalformed, e.Version, link.Version)
	}
	return Link{Version: e.Version, Hash: m.ChainHash(link.Hash)}, nil
}

// DecodePayload reads the payload of an event of this build's schemas, or of
// any earlier version. Unknown fields are ignored here; they stay in the log.
func (m Message) DecodePayload(e Envelope) (Payload, error) {
	p := newPayload(e.Type)
	if p == nil || e.Schema > schemas[e.Type] {
		return nil, fmt.Errorf("%w: %s v%d", ErrUnknown, clip(string(e.Type), 60), e.Schema)
	}
	var err error
	if e.Type == TypeTurnAppended {
		p, err = DecodeTurn(m.Data)
	} else {
		err = json.Unmarshal(m.Data, p)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrMalformed, e.Type, err)
	}
	return p, nil
}

// PayloadJSON gives the payload's JSON as the log holds it, for callers that
// must know its size before they publish it.
func PayloadJSON(p Payload) ([]byte, error) { return marshal(p) }

// Position in a log: which log (epoch) and where. It is the token that every
// write returns and every read accepts.
type Position struct {
	Epoch string `json:"epoch"`
	Seq   uint64 `json:"seq"`
}

func (p Position) String() string {
	if p == (Position{}) {
		return ""
	}
	return p.Epoch + "@" + strconv.FormatUint(p.Seq, 10)
}

// ParsePosition reverses String; "" is the zero Position.
func ParsePosition(s string) (Position, error) {
	if s == "" {
		return Position{}, nil
	}
	epoch, seq, ok := strings.Cut(s, "@")
	n, err := strconv.ParseUint(seq, 10, 64)
	if !ok || err != nil || epoch == "" {
		return Position{}, fmt.Errorf("token %q is not <epoch>@<seq>", clip(s, 80))
	}
	return Position{Epoch: epoch, Seq: n}, nil
}
