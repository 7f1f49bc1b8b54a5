package events

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// appendTurn writes a turn's payload. It is encoding/json's without HTML
// escaping, several times faster: writing turns is most of what an append
// costs here. The error is about AuthorTime.
func appendTurn(b []byte, t *TurnAppended) ([]byte, error) {
	b = slices.Grow(b, 256+len(t.Text)+len(t.Original))
	b = appendString(append(b, `{"id":`...), t.ID)
	b = strconv.AppendUint(append(b, `,"entry":`...), t.Entry, 10)
	if t.Parent != 0 {
		b = strconv.AppendUint(append(b, `,"parent":`...), t.Parent, 10)
	}
	b = appendString(append(b, `,"role":`...), string(t.Role))
	b = appendText(b, `,"sender":`, t.Sender)
	b = appendText(b, `,"message_id":`, t.MessageID)
	if len(t.Blocks) > 0 {
		b = appendBlocks(append(b, `,"blocks":`...), t.Blocks)
	}
	b = appendText(b, `,"text":`, t.Text)
	b = strconv.AppendInt(append(b, `,"tokens":`...), int64(t.Tokens), 10)
	b = strconv.AppendInt(append(b, `,"input_tokens":`...), int64(t.InputTokens), 10)
	b = appendFlag(b, `,"injected":`, t.Injected)
	for i := range t.Files {
		b = append(b, pick(i == 0, `,"files":[`, `,`)...)
		b = appendFile(b, &t.Files[i])
	}
	if len(t.Files) > 0 {
		b = append(b, ']')
	}
	b = appendFlag(b, `,"large_inline":`, t.LargeInline)
	b = appendText(b, `,"format":`, t.Format)
	b = appendText(b, `,"original":`, t.Original)
	b = appendFlag(b, `,"exact":`, t.Exact)
	b = appendText(b, `,"raw_hash":`, t.RawHash)
	if t.AuthorTime != nil {
		at, err := t.AuthorTime.MarshalJSON()
		if err != nil {
			return b, err
		}
		b = append(append(b, `,"author_time":`...), at...)
	}
	return append(b, '}'), nil
}

func pick(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// appendBlocks writes a list of blocks, null where there is none.
func appendBlocks(b []byte, blocks []Block) []byte {
	if blocks == nil {
		return append(b, `null`...)
	}
	b = append(b, '[')
	for i := range blocks {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendBlock(b, &blocks[i])
	}
	return append(b, ']')
}

func appendBlock(b []byte, k *Block) []byte {
	b = appendString(append(b, `{"type":`...), string(k.Type))
	b = appendText(b, `,"text":`, k.Text)
	b = appendText(b, `,"signature":`, k.Signature)
	b = appendText(b, `,"call_id":`, k.CallID)
	b = appendText(b, `,"name":`, k.Name)
	b = appendText(b, `,"input":`, k.Input)
	if len(k.Content) > 0 {
		b = appendBlocks(append(b, `,"content":`...), k.Content)
	}
	b = appendFlag(b, `,"is_error":`, k.IsError)
	b = appendText(b, `,"media_type":`, k.MediaType)
	b = appendText(b, `,"data":`, k.Data)
	b = appendText(b, `,"url":`, k.URL)
	b = appendNumber(b, `,"width":`, k.Width)
	b = appendNumber(b, `,"height":`, k.Height)
	b = appendText(b, `,"raw":`, k.Raw)
	return append(b, '}')
}

func appendFile(b []byte, f *File) []byte {
	b = appendString(append(b, `{"id":`...), f.ID)
	b = appendString(append(b, `,"path":`...), f.Path)
	b = appendString(append(b, `,"kind":`...), f.Kind)
	b = appendString(append(b, `,"summary":`...), f.Summary)
	b = appendString(append(b, `,"head":`...), f.Head)
	b = strconv.AppendInt(append(b, `,"bytes":`...), int64(f.Bytes), 10)
	b = strconv.AppendInt(append(b, `,"block":`...), int64(f.Block), 10)
	return append(b, '}')
}

// appendText, appendFlag and appendNumber write a member, unless it is zero.
func appendText(b []byte, name, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(append(b, name...), s)
}

func appendFlag(b []byte, name string, on bool) []byte {
	if !on {
		return b
	}
	return append(append(b, name...), `true`...)
}

func appendNumber(b []byte, name string, n int) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), int64(n), 10)
}

func appendString(b []byte, s string) []byte {
	if !utf8.ValidString(s) || strings.Contains(s, "\u2028") || strings.Contains(s, "\u2029") {
		odd, _ := marshal(s) // which replaces and escapes them; a string: cannot fail
		return append(b, odd...)
	}
	b = append(b, '"')
	for {
		n := plainBytes([]byte(s))
		for n < len(s) && s[n] >= ' ' && s[n] != '"' && s[n] != '\\' {
			n++
		}
		b = append(b, s[:n]...)
		if n == len(s) {
			return append(b, '"')
		}
		b = appendEscape(b, s[n])
		s = s[n+1:]
	}
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// scratch is what is laid out only to be hashed: one block of bytes is hashed
// faster than many pieces, and every event of a log is.
var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// maxScratch bounds what is kept for that.
const maxScratch = 64 << 10

func giveBack(b *[]byte) {
	if cap(*b) <= maxScratch {
		scratch.Put(b)
	}
}
