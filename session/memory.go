package session

import (
	"bytes"
	"slices"
	"sort"
)

// Memory is an in-memory Rows, for tests and simulations. It enforces the
// port's contract: it never lets a caller keep or change what it holds.
type Memory struct {
	keys [][]byte // kind followed by key, sorted
	vals map[string][]byte
}

// NewMemory returns an empty session.
func NewMemory() *Memory { return &Memory{vals: map[string][]byte{}} }

func memoryKey(kind RowKind, key []byte) []byte { return append([]byte{byte(kind)}, key...) }

// Get implements Rows.
func (m *Memory) Get(kind RowKind, key []byte) ([]byte, error) {
	return slices.Clone(m.vals[string(memoryKey(kind, key))]), nil
}

// Floor implements Rows.
func (m *Memory) Floor(kind RowKind, key []byte) (k, v []byte, err error) {
	want := memoryKey(kind, key)
	i := sort.Search(len(m.keys), func(i int) bool { return bytes.Compare(m.keys[i], want) > 0 }) - 1
	if i < 0 || m.keys[i][0] != byte(kind) {
		return nil, nil, nil
	}
	return slices.Clone(m.keys[i][1:]), slices.Clone(m.vals[string(m.keys[i])]), nil
}

// Put implements Rows.
func (m *Memory) Put(kind RowKind, key, value []byte) error {
	k := memoryKey(kind, key)
	if _, ok := m.vals[string(k)]; !ok {
		i, _ := slices.BinarySearchFunc(m.keys, k, bytes.Compare)
		m.keys = slices.Insert(m.keys, i, k)
	}
	v := slices.Clone(value)
	if v == nil {
		v = []byte{}
	}
	m.vals[string(k)] = v
	return nil
}

// Dump lists all rows in key order: what two folds of one log must agree on.
func (m *Memory) Dump(visit func(kind RowKind, key, value []byte)) {
	for _, k := range m.keys {
		visit(RowKind(k[0]), k[1:], m.vals[string(k)])
	}
}
