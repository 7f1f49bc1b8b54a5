package eval

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// oracle is a model that knows the label of every row, behind the HTTP of
// OpenAI-compatible servers. It answers single rows; a share of its answers is
// malformed, breaks the schema, is cut off, late, or an error.
type oracle struct {
	labels map[string]string // row id → label
	faults float64
	late   time.Duration
	seed   uint64
	server *http.Server
	url    string

	mu    sync.Mutex
	asked map[string]int // row id → times
	Calls int
	Bad   int // of them, on purpose
}

func newOracle(s *Set, faults float64, late time.Duration, seed uint64) (*oracle, error) {
	o := &oracle{labels: map[string]string{}, faults: faults, late: late, seed: seed, asked: map[string]int{}}
	for _, r := range s.Rows {
		o.labels[r.ID] = r.label
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o.url = "http://" + l.Addr().String()
	o.server = &http.Server{Handler: o, ReadHeaderTimeout: time.Minute}
	go func() { _ = o.server.Serve(l) }() // ends with close
	return o, nil
}

func (o *oracle) close() { _ = o.server.Close() }

// fault of the n-th answer about a row, "" = none: the same one for a seed,
// whatever the order of the calls.
func (o *oracle) fault(id string, n int) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", id, n)
	at := rand.New(rand.NewPCG(o.seed, h.Sum64())).Float64() // the hash alone is alike for n and n+1
	if at >= o.faults {
		return ""
	}
	kinds := []string{"malformed", "mismatch", "cut", "late", "error"}
	return kinds[int(at/o.faults*float64(len(kinds)))]
}

// ServeHTTP answers chat/completions.
func (o *oracle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) < 2 {
		http.Error(w, "this is no request for chat completions", http.StatusBadRequest)
		return
	}
	prompt := q.Messages[1].Content // behind the system's
	id, _, _ := strings.Cut(prompt[strings.Index(prompt, "[")+1:], "]")
	o.mu.Lock()
	o.asked[id]++
	label, known := o.labels[id]
	fault := o.fault(id, o.asked[id])
	o.Calls++
	if fault != "" {
		o.Bad++
	}
	o.mu.Unlock()
	if !known {
		http.Error(w, fmt.Sprintf("there is no row %q", id), http.StatusBadRequest)
		return
	}
	text, finish := fmt.Sprintf(`{"label":%q}`, label), "stop"
	switch fault {
	case "malformed":
		text = "The label is " + label + "."
	case "mismatch":
		text = `{"label":"something else","why":1}`
	case "cut":
		text, finish = text[:len(text)/2], "length"
	case "error":
		http.Error(w, `{"error":{"message":"internal error"}}`, http.StatusInternalServerError)
		return
	case "late":
		select {
		case <-time.After(o.late):
		case <-r.Context().Done():
			return
		}
	}
	content, _ := json.Marshal(text)
	fmt.Fprintf(w, `{"model":"oracle","choices":[{"finish_reason":%q,"message":{"content":%s}}],"usage":{"prompt_tokens":%d,"completion_tokens":8}}`,
		finish, content, len(prompt)/4)
}
