package session

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"lcm/events"
)

// LeafKey identifies a leaf by what it is made of: the covered entries, the
// prompt version, and the node it supersedes, if any.
func LeafKey(entries []events.Range, promptVersion, supersedes string) string {
	h := sha256.New()
	fmt.Fprintf(h, "leaf\x00%s\x00%s\x00", promptVersion, supersedes)
	for _, r := range entries {
		fmt.Fprintf(h, "%d-%d,", r.First, r.Last)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// CondensedKey identifies a condensed node by its depth and children.
func CondensedKey(depth int, children []string, promptVersion, supersedes string) string {
	h := sha256.New()
	fmt.Fprintf(h, "node\x00%d\x00%s\x00%s\x00", depth, promptVersion, supersedes)
	for _, c := range children {
		io.WriteString(h, c)
		h.Write([]byte{','})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
