package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// AllBlocks returns the blocks of a turn, with the single text block that the
// payload leaves out put back.
func (t *TurnAppended) AllBlocks() []Block {
	if t.Blocks == nil && t.Text != "" {
		return []Block{{Type: BlockText, Text: t.Text}}
	}
	return t.Blocks
}

// DerivedText returns what is indexed and summarised of a turn.
func (t *TurnAppended) DerivedText() string {
	if t.Text != "" {
		return t.Text
	}
	return DeriveText(t.Blocks)
}

// Compact drops what the payload can do without: a single text block, and a
// derived text that follows from the blocks.
func (t *TurnAppended) Compact() {
	if len(t.Blocks) == 1 && t.Blocks[0].Type == BlockText && t.Blocks[0].Text != "" && isPlainText(t.Blocks[0]) {
		t.Text, t.Blocks = t.Blocks[0].Text, nil
		return
	}
	if t.Text == DeriveText(t.Blocks) {
		t.Text = ""
	}
}

func isPlainText(b Block) bool {
	return b.Signature == "" && b.CallID == "" && b.Name == "" && b.Raw == "" && b.Data == "" && b.URL == ""
}

// DeriveText joins what can be read of the blocks: text, the name and input of
// calls, the text of results and documents. Thinking, media payloads and
// unknown blocks are not text. The rule belongs to TurnAppended v1 and is
// frozen with it.
func DeriveText(blocks []Block) string {
	var parts []string
	for _, b := range blocks {
		switch b.Type {
		case BlockText, BlockDocument:
			parts = append(parts, b.Text)
		case BlockToolUse:
			parts = append(parts, strings.TrimSpace(b.Name+" "+b.Input))
		case BlockToolResult:
			parts = append(parts, b.Text, DeriveText(b.Content))
		}
	}
	kept := parts[:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "\n")
}

// DerivedText is what DeriveText makes of one block. Of a tool result it is the
// body that a file handle stands for.
func (b Block) DerivedText() string { return DeriveText([]Block{b}) }

// ContentHash identifies what a turn says: 16 hex digits over its role and
// blocks. Equal content under one id is the same turn whatever its metadata.
func (t *TurnAppended) ContentHash() string {
	buf := scratch.Get().(*[]byte)
	defer giveBack(buf)
	*buf = append((*buf)[:0], t.Role...)
	*buf = append(*buf, 0)
	if t.Blocks == nil && t.Text != "" { // AllBlocks, without making them
		one := Block{Type: BlockText, Text: t.Text}
		*buf = append(appendBlock(append(*buf, '['), &one), ']')
	} else {
		*buf = appendBlocks(*buf, t.Blocks)
	}
	*buf = append(*buf, '\n')
	return HashBytes(*buf)
}

// SourceHash identifies the verbatim source of a turn, "" where it has none.
func (t *TurnAppended) SourceHash() string {
	if t.Original != "" {
		return HashBytes([]byte(t.Original))
	}
	return t.RawHash
}

// HashBytes is the first 16 hex digits of a SHA-256.
func HashBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Calls returns the ids of the tool calls a turn makes.
func (t *TurnAppended) Calls() []string { return callIDs(t.Blocks, BlockToolUse) }

// Results returns the ids of the tool calls a turn answers.
func (t *TurnAppended) Results() []string { return callIDs(t.Blocks, BlockToolResult) }

func callIDs(blocks []Block, kind BlockType) []string {
	var ids []string
	for _, b := range blocks {
		if b.Type == kind && b.CallID != "" {
			ids = append(ids, b.CallID)
		}
	}
	return ids
}

// marshal encodes without HTML escaping and without the trailing newline.
func marshal(v any) ([]byte, error) {
	if t, ok := v.(*TurnAppended); ok && t != nil {
		return appendTurn(nil, t)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// MaxTurnIDBytes bounds turn ids.
const MaxTurnIDBytes = 512

// ValidateTurnID says what is wrong with a turn id, if anything. Control
// characters are refused: ids stand in lists, URLs and terminal output.
func ValidateTurnID(id string) error {
	switch {
	case id == "":
		return errors.New("a turn without an id")
	case len(id) > MaxTurnIDBytes:
		return fmt.Errorf("turn id %q… has %d bytes, at most %d are allowed", clip(id, 40), len(id), MaxTurnIDBytes)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("turn id %q holds control characters or invalid UTF-8", clip(id, 80))
	}
	return nil
}

// UnnamedID names a turn whose source gives it no id: the n-th of the turns of
// its session with that content, from 1, so that reading the source again finds
// it.
func UnnamedID(session, content string, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", session, content, n))
	return "h:" + hex.EncodeToString(sum[:16])
}
