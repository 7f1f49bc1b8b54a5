package transcript

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// check says what makes a record unreadable whatever its format.
func (r *record) check() {
	if r.checked || r.reason != "" {
		return
	}
	r.checked = true
	if !utf8.Valid(r.src) {
		r.reason = "not valid UTF-8"
	} else if err := validate(r.src); err != nil {
		r.reason = fmt.Sprintf("not JSON: %v", err)
	}
}

// conversation is what a record that holds a whole conversation is made of.
type conversation struct {
	messages []byte // array
	system   []byte // instructions beside the messages, nil = none
	envelope []byte // everything else: a task's id, a reward, the model; nil = nothing
}

// conversation takes a record apart that holds one: an array of messages, or an
// object around it. It checks the record.
func (s *source) conversation(rec *record) (c conversation, ok bool) {
	rec.check()
	if rec.reason != "" || s.format == ClaudeCode || s.format == Pi {
		return c, false
	}
	if isArray(rec.src) {
		c.messages = rec.src
		return c, isObject(firstElement(rec.src))
	}
	role := false
	fields(rec.src, func(key, val []byte) {
		switch k := string(key); {
		case k == "role":
			role = true
		case k == "messages" && isArray(val), k == "input" && s.format == Codex && isArray(val):
			c.messages = val
		}
	})
	if c.messages == nil || role {
		return c, false
	}
	fields(rec.src, func(key, val []byte) {
		switch k := string(key); {
		case sameBytes(val, c.messages):
		case (k == "system" || k == "instructions" && s.format == Codex) && (isString(val) && len(val) > 2 || isObject(firstElement(val))):
			c.system = val
		default:
			sep := byte(',')
			if c.envelope == nil {
				sep = '{'
			}
			c.envelope = append(append(appendQuoted(append(c.envelope, sep), k, false), ':'), val...)
		}
	})
	if c.envelope != nil {
		c.envelope = append(c.envelope, '}')
	}
	return c, true
}

// sameBytes reports that two spans of a record are one.
func sameBytes(a, b []byte) bool { return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] }

func firstElement(v []byte) (el []byte) {
	elements(v, func(e []byte) {
		if el == nil {
			el = e
		}
	})
	return el
}

// expand reads the turns of a conversation. A sole one is the source itself:
// its elements are numbered, and what stands around them has line 0. Others are
// named by their line.
func (s *source) expand(rec record, c conversation, sole bool) error {
	if d, ok := s.dec.(*codex); ok {
		d.response = ""
	}
	part := func(src []byte, index int) record {
		r := record{line: rec.line, index: index, src: bytes.Clone(src), size: int64(len(src)), checked: true}
		if sole {
			r.line, r.index = index, 0
		} else {
			r.conv = fmt.Sprintf("-%d", rec.line)
		}
		return r
	}
	items := s.buf[:0]
	if c.envelope != nil {
		items = append(items, newItem(part(c.envelope, 0)).skip("conversation"))
	}
	if c.system != nil {
		d := chat{format: s.format}
		items = append(items, d.systemTurn(part(c.system, 0)))
	}
	err := s.put(items)
	index := 0
	elements(c.messages, func(v []byte) {
		index++
		if err == nil {
			err = s.record(part(v, index))
		}
	})
	return err
}
