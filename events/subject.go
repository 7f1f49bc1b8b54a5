package events

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DefaultPartitions is P of a new log. It is fixed when the log is created.
const DefaultPartitions = 16

// MaxNameBytes bounds tenant and session names, before encoding.
const MaxNameBytes = 200

// Ref names a session: any UTF-8 up to MaxNameBytes each, not normalised.
type Ref struct {
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
}

func (r Ref) String() string { return r.Tenant + "/" + r.Session }

// Validate says what is wrong with the names, if anything.
func (r Ref) Validate() error {
	if err := validName("tenant", r.Tenant); err != nil {
		return err
	}
	return validName("session", r.Session)
}

func validName(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s name is empty", what)
	case len(s) > MaxNameBytes:
		return fmt.Errorf("%s name %q… has %d bytes, at most %d are allowed", what, clip(s, 40), len(s), MaxNameBytes)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s name %q is not valid UTF-8", what, clip(s, 40))
	}
	return nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

const hexDigits = "0123456789ABCDEF"

// EncodeToken percent-encodes a name byte by byte outside [A-Za-z0-9_-], so
// that it is one subject token.
func EncodeToken(s string) string {
	plain := true
	for i := 0; i < len(s); i++ {
		if !tokenByte(s[i]) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	b := make([]byte, 0, len(s)*2)
	for i := 0; i < len(s); i++ {
		if c := s[i]; tokenByte(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(b)
}

func tokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// ErrToken is returned for a subject token that EncodeToken cannot have made.
var ErrToken = errors.New("not an encoded name")

// DecodeToken reverses EncodeToken. It accepts only the canonical form, so
// that one session has one subject.
func DecodeToken(t string) (string, error) {
	if !strings.Contains(t, "%") {
		for i := 0; i < len(t); i++ {
			if !tokenByte(t[i]) {
				return "", fmt.Errorf("%w: %q", ErrToken, clip(t, 80))
			}
		}
		if t == "" {
			return "", fmt.Errorf("%w: empty", ErrToken)
		}
		return t, nil
	}
	b := make([]byte, 0, len(t))
	for i := 0; i < len(t); i++ {
		if t[i] != '%' {
			b = append(b, t[i])
			continue
		}
		if i+2 >= len(t) {
			return "", fmt.Errorf("%w: %q", ErrToken, clip(t, 80))
		}
		v, err := strconv.ParseUint(t[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("%w: %q", ErrToken, clip(t, 80))
		}
		b = append(b, byte(v))
		i += 2
	}
	s := string(b)
	if EncodeToken(s) != t {
		return "", fmt.Errorf("%w: %q is not canonical", ErrToken, clip(t, 80))
	}
	return s, nil
}

// Partition is FNV-1a-32 over the two encoded tokens, concatenated without a
// separator, modulo p: what the server's {{partition(p,…)}} mapping computes.
func Partition(tenantToken, sessionToken string, p int) int {
	h := fnv.New32a()
	h.Write([]byte(tenantToken))
	h.Write([]byte(sessionToken))
	return int(h.Sum32() % uint32(p))
}

// Lane is one of the two subjects of a session.
type Lane string

// The lanes: the timeline and the derived events.
const (
	LaneTimeline Lane = "ev"
	LaneDerived  Lane = "dag"
)

// Lane says on which of a session's subjects an event of this type belongs;
// "" for a type unknown here.
func (t Type) Lane() Lane {
	switch t {
	case TypeTurnAppended, TypeLeafMoved, TypeSessionConfigured, TypeHistoryCompacted:
		return LaneTimeline
	case TypeNodeCommitted, TypeCutCommitted, TypePassStalled:
		return LaneDerived
	}
	return ""
}

// Subject of a session's lane: lcm.<ev|dag>.<part>.<tenant>.<session>.
func Subject(lane Lane, r Ref, partitions int) string {
	t, s := EncodeToken(r.Tenant), EncodeToken(r.Session)
	return "lcm." + string(lane) + "." + strconv.Itoa(Partition(t, s, partitions)) + "." + t + "." + s
}

// ParseSubject reverses Subject. It checks the form, not that the partition
// is the right one.
func ParseSubject(subject string) (lane Lane, part int, r Ref, err error) {
	rest, ok := strings.CutPrefix(subject, "lcm.")
	first, rest, ok2 := strings.Cut(rest, ".")
	number, rest, ok3 := strings.Cut(rest, ".")
	tenant, session, ok4 := strings.Cut(rest, ".")
	lane = Lane(first)
	if !ok || !ok2 || !ok3 || !ok4 || strings.Contains(session, ".") || (lane != LaneTimeline && lane != LaneDerived) {
		return "", 0, Ref{}, fmt.Errorf("subject %q is not lcm.<ev|dag>.<part>.<tenant>.<session>", clip(subject, 200))
	}
	if part, err = strconv.Atoi(number); err != nil || part < 0 {
		return "", 0, Ref{}, fmt.Errorf("subject %q has no partition number", clip(subject, 200))
	}
	if r.Tenant, err = DecodeToken(tenant); err != nil {
		return "", 0, Ref{}, err
	}
	if r.Session, err = DecodeToken(session); err != nil {
		return "", 0, Ref{}, err
	}
	return lane, part, r, nil
}

// InboxSubject is where an agent publishes turns: lcm.in.<tenant>.<session>.
func InboxSubject(r Ref) string {
	return "lcm.in." + EncodeToken(r.Tenant) + "." + EncodeToken(r.Session)
}

// ParseInboxSubject reverses InboxSubject, and the partitioned form
// lcm.in.<part>.<tenant>.<session> that the stream stores.
func ParseInboxSubject(subject string) (Ref, error) { return parseTail(subject, "lcm.in.") }

// Urgency of a task.
type Urgency string

// Urgent tasks are those somebody waits for.
const (
	Urgent Urgency = "urgent"
	Normal Urgency = "normal"
)

// TaskSubject of a session: lcm.task.<urgent|normal>.<tenant>.<session>.
func TaskSubject(u Urgency, r Ref) string {
	return "lcm.task." + string(u) + "." + EncodeToken(r.Tenant) + "." + EncodeToken(r.Session)
}

// ParseTaskSubject reverses TaskSubject.
func ParseTaskSubject(subject string) (Ref, error) { return parseTail(subject, "lcm.task.") }

// parseTail reads tenant and session from the last two tokens.
func parseTail(subject, prefix string) (r Ref, err error) {
	rest, ok := strings.CutPrefix(subject, prefix)
	tok := strings.Split(rest, ".")
	if !ok || len(tok) < 2 || len(tok) > 3 {
		return Ref{}, fmt.Errorf("subject %q is not %s…<tenant>.<session>", clip(subject, 200), prefix)
	}
	if r.Tenant, err = DecodeToken(tok[len(tok)-2]); err != nil {
		return Ref{}, err
	}
	r.Session, err = DecodeToken(tok[len(tok)-1])
	return r, err
}
