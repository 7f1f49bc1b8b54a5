package natsmicro

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"lcm/internal/problem"
)

// Headers. NATS header names are case-sensitive.
const (
	headerTimeout    = "Lcm-Timeout"    // request: milliseconds left; relative, as clocks differ
	headerPart       = "Lcm-Part"       // answer: "<i>/<n>", from 1, where it comes in parts
	headerSum        = "Lcm-Sum"        // answer in parts: SHA-256 of the whole, hex
	headerPartitions = "Lcm-Partitions" // answer to a read: what the projector serves, "0,1,2"
	headerBearer     = "Authorization"  // request: "Bearer <token>"
	headerStatus     = "Status"         // the server's own
)

const (
	// PartBytes is the payload of one message at most.
	PartBytes = 512 << 10
	// MaxReplyBytes of one answer. It holds the largest turn there is and
	// keeps a mistaken request from filling two processes.
	MaxReplyBytes = 256 << 20
	// headerRoom is what headers may add to a message.
	headerRoom = 8 << 10
	// maxDetailBytes of an error's text.
	maxDetailBytes = 16 << 10
)

// DefaultTimeout of a request whose context has no deadline.
const DefaultTimeout = 30 * time.Second

// maxTimeout is the longest a server works on one request.
const maxTimeout = time.Hour

// wireError is the body of an error answer.
type wireError struct {
	Code   problem.Code `json:"code"`
	Detail string       `json:"detail"`
	Hint   string       `json:"hint,omitempty"`
	// Reply is what can be said in spite of the error, such as a watermark.
	Reply json.RawMessage `json:"reply,omitempty"`
}

// encode writes JSON without escaping HTML, so that a payload that is carried
// as it is stays the same bytes.
func encode(v any) ([]byte, error) {
	if p, ok := v.(packed); ok {
		return p, nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, problem.New(problem.Internal, "encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// answer publishes an answer, in parts where it is large. All parts are of one
// snapshot; their order is that of the connection.
func answer(nc *nats.Conn, inbox string, header nats.Header, data []byte) error {
	size := partBytes(nc)
	n := max(1, (len(data)+size-1)/size)
	sum := ""
	if n > 1 {
		s := sha256.Sum256(data)
		sum = hex.EncodeToString(s[:])
	}
	for i := range n {
		m := nats.NewMsg(inbox)
		for k, v := range header {
			m.Header[k] = v
		}
		if n > 1 {
			m.Header.Set(headerPart, fmt.Sprintf("%d/%d", i+1, n))
			m.Header.Set(headerSum, sum)
		}
		m.Data = data[i*size : min(len(data), (i+1)*size)]
		if err := nc.PublishMsg(m); err != nil {
			return err
		}
	}
	return nil
}

func partBytes(nc *nats.Conn) int {
	return max(1, min(PartBytes, int(nc.MaxPayload())-headerRoom))
}

// answerError publishes an error, also in the headers micro's own tools read.
func answerError(nc *nats.Conn, inbox string, header nats.Header, err error, reply any) error {
	p := problem.From(err)
	w := wireError{Code: p.Code, Detail: clip(p.Text, maxDetailBytes), Hint: clip(p.Hint, maxDetailBytes)}
	if reply != nil {
		w.Reply, _ = encode(reply)
	}
	data, encErr := encode(w)
	if encErr != nil {
		return encErr
	}
	h := nats.Header{micro.ErrorCodeHeader: {string(w.Code)}, micro.ErrorHeader: {clip(oneLine(w.Detail), 200)}}
	for k, v := range header {
		h[k] = v
	}
	return answer(nc, inbox, h, data)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }), " ")
}

// readError makes the error of an error answer, and decodes what came with it
// into out.
func readError(data []byte, out any) error {
	var w wireError
	if err := json.Unmarshal(data, &w); err != nil || w.Code == "" {
		return problem.New(problem.Internal, "an error answer that cannot be read (%d bytes)", len(data))
	}
	if len(w.Reply) > 0 && out != nil {
		_ = json.Unmarshal(w.Reply, out)
	}
	e := problem.New(w.Code, "%s", w.Detail)
	return e.WithHint("%s", w.Hint)
}

// assembly puts the parts of an answer together.
type assembly struct {
	data []byte
	next int // part awaited, from 1
	of   int
	sum  string
}

// add takes a message; done = the answer is whole.
func (a *assembly) add(m *nats.Msg) (done bool, err error) {
	part := m.Header.Get(headerPart)
	if part == "" {
		a.data = m.Data
		return true, nil
	}
	i, n, ok := parsePart(part)
	if a.of == 0 {
		a.of, a.next, a.sum = n, 1, m.Header.Get(headerSum)
	}
	if !ok || n != a.of || i != a.next || m.Header.Get(headerSum) != a.sum {
		return false, errors.New("a part of the answer is missing")
	}
	if a.data = append(a.data, m.Data...); len(a.data) > MaxReplyBytes {
		return false, fmt.Errorf("the answer exceeds %d bytes", MaxReplyBytes)
	}
	if a.next++; i < n {
		return false, nil
	}
	if s := sha256.Sum256(a.data); hex.EncodeToString(s[:]) != a.sum {
		return false, errors.New("the answer is not what was sent")
	}
	return true, nil
}

func parsePart(s string) (i, n int, ok bool) {
	a, b, ok := strings.Cut(s, "/")
	i, err1 := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	return i, n, ok && err1 == nil && err2 == nil && i >= 1 && i <= n
}

// timeoutHeader tells the server less than what is left, so that its last word
// ("stale, at …") arrives in time: the server counts from when it got to the
// request, and a busy machine takes tens of milliseconds there and back.
func timeoutHeader(ctx context.Context) string {
	left := DefaultTimeout
	if d, ok := ctx.Deadline(); ok {
		left = time.Until(d)
	}
	left -= min(left/4, 250*time.Millisecond)
	return strconv.FormatInt(max(left.Milliseconds(), 1), 10)
}

func readTimeout(h micro.Headers) time.Duration {
	ms, err := strconv.ParseInt(h.Get(headerTimeout), 10, 64)
	if err != nil || ms < 1 {
		return DefaultTimeout
	}
	return min(time.Duration(min(ms, maxTimeout.Milliseconds()))*time.Millisecond, maxTimeout)
}
