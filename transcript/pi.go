package transcript

import (
	"fmt"
	"strings"

	"lcm/events"
)

// pi reads the session files of the Pi coding agent. Version 1 is linear and
// has no ids; versions 2 and 3 are a tree by id and parentId in which the last
// record says where the leaf is.
type pi struct {
	seen map[string]string // turn id a child of a record follows, by the record's id
	leaf string            // turn the source's leaf stands on
	// move is the newest record that put the leaf elsewhere without being a
	// turn. It is told at the end only: a turn behind it says it itself.
	move *Item
}

func newPi() *pi { return &pi{seen: map[string]string{}} }

type piRecord struct {
	typ, id, parent, timestamp, message     []byte
	summary, firstKept, content, customType []byte
	targetID                                []byte
	hasParent                               bool
}

func readPiRecord(src []byte) (r piRecord) {
	fields(src, func(key, val []byte) {
		switch string(key) {
		case "type":
			r.typ = val
		case "id":
			r.id = val
		case "parentId":
			r.parent, r.hasParent = val, true
		case "timestamp":
			r.timestamp = val
		case "message":
			r.message = val
		case "summary":
			r.summary = val
		case "firstKeptEntryId":
			r.firstKept = val
		case "content":
			r.content = val
		case "customType":
			r.customType = val
		case "targetId":
			r.targetID = val
		}
	})
	return r
}

func (p *pi) decode(rec record, out []Item) []Item {
	it := newItem(rec)
	if !isObject(rec.src) {
		return append(out, it.reject("a JSON %s, not an object", typeName(rec.src)))
	}
	r := readPiRecord(rec.src)
	if text(r.typ) == "" {
		return append(out, it.reject("the record has no type"))
	}
	typ, id := text(r.typ), text(r.id)
	if typ == "session" {
		return append(out, it.skip(typ))
	}
	parent := p.seen[text(r.parent)]
	it.ParentID = parent
	switch typ {
	case "message":
		it = p.message(it, r)
	case "custom_message":
		it = p.custom(it, r.content, r.customType, r)
	case "compaction", "branch_summary":
		it = it.compacted(id, text(r.summary), Pi, authorTime(r.timestamp))
		it.ParentID = parent
		it.KeptID = p.seen[text(r.firstKept)]
	default:
		it = it.skip(typ)
	}
	p.track(it, r, typ, id, parent)
	if it.Kind != KindTurn && it.Kind != KindCompaction {
		it.ParentID = ""
	}
	return append(out, it)
}

// track follows the tree: what a child of this record will follow, and where
// the leaf stands now.
func (p *pi) track(it Item, r piRecord, typ, id, parent string) {
	if it.Kind == KindTurn {
		p.leaf, p.move = id, nil
		if id != "" {
			p.seen[id] = id
		}
		return
	}
	if typ == "leaf" {
		parent = p.seen[text(r.targetID)]
	}
	if id == "" || !r.hasParent {
		return
	}
	p.seen[id] = parent
	if parent == "" { // nothing to name
		return
	}
	if parent == p.leaf {
		p.move = nil
		return
	}
	m := it
	m.Kind, m.ParentID, m.Reason, m.Turn, m.Compaction, m.KeptID = KindMove, parent, typ, nil, nil, ""
	p.move = &m
}

func (p *pi) flush(out []Item) []Item {
	if p.move != nil {
		out = append(out, *p.move)
		p.move = nil
	}
	return out
}

type piMessage struct {
	role, content, timestamp, callID, tool, isError []byte
	command, output, exitCode, cancelled, exclude   []byte
	summary, customType, api, provider              []byte
}

func readPiMessage(src []byte) (m piMessage) {
	fields(src, func(key, val []byte) {
		switch string(key) {
		case "role":
			m.role = val
		case "content":
			m.content = val
		case "timestamp":
			m.timestamp = val
		case "toolCallId":
			m.callID = val
		case "toolName":
			m.tool = val
		case "isError":
			m.isError = val
		case "command":
			m.command = val
		case "output":
			m.output = val
		case "exitCode":
			m.exitCode = val
		case "cancelled":
			m.cancelled = val
		case "excludeFromContext":
			m.exclude = val
		case "summary":
			m.summary = val
		case "customType":
			m.customType = val
		case "api":
			m.api = val
		case "provider":
			m.provider = val
		}
	})
	return m
}

func (p *pi) message(it Item, r piRecord) Item {
	if !isObject(r.message) {
		return it.reject("the message is a %s, not an object", typeName(r.message))
	}
	m := readPiMessage(r.message)
	if authorTime(r.timestamp) == nil {
		r.timestamp = m.timestamp
	}
	role := text(m.role)
	switch role {
	case "bashExecution":
		if isTrue(m.exclude) { // the user kept it from the model
			return it.skip("bashExecution excluded from context")
		}
		return p.turn(it, r, &events.TurnAppended{Role: events.RoleUser, Injected: true, Blocks: []events.Block{
			{Type: events.BlockUnknown, Raw: string(r.message)},
			{Type: events.BlockText, Text: bashText(m)},
		}})
	case "custom", "hookMessage":
		return p.custom(it, m.content, m.customType, r)
	case "compactionSummary", "branchSummary":
		return it.compacted(text(r.id), text(m.summary), Pi, authorTime(r.timestamp))
	}
	who, ok := foreignRole(role)
	if !ok {
		return it.reject("the role is %.40s", m.role)
	}
	if isNull(m.content) {
		return it.reject("%v", errNoContent)
	}
	blocks, err := piBlocks(m, who)
	if err != nil {
		return it.reject("%v", err)
	}
	if who == events.RoleTool {
		blocks = []events.Block{{
			Type: events.BlockToolResult, CallID: text(m.callID), Name: text(m.tool),
			Content: blocks, IsError: isTrue(m.isError),
		}}
	}
	return p.turn(it, r, &events.TurnAppended{Role: who, Blocks: blocks})
}

func (p *pi) turn(it Item, r piRecord, t *events.TurnAppended) Item {
	t.ID, t.AuthorTime = text(r.id), authorTime(r.timestamp)
	it.Kind, it.Turn = KindTurn, finish(t, Pi, it.Source)
	return it
}

// custom reads a message an extension put into the context.
func (p *pi) custom(it Item, content, customType []byte, r piRecord) Item {
	if isNull(content) {
		return it.reject("%v", errNoContent)
	}
	blocks, err := contentBlocks(content)
	if err != nil {
		return it.reject("%v", err)
	}
	return p.turn(it, r, &events.TurnAppended{Role: events.RoleUser, Injected: true, Sender: text(customType), Blocks: blocks})
}

// bashText is what a command the user ran reads like.
func bashText(m piMessage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ %s\n%s", text(m.command), text(m.output))
	if code := string(m.exitCode); code != "" && code != "0" && code != "null" {
		fmt.Fprintf(&b, "\n[exit code %s]", code)
	}
	if isTrue(m.cancelled) {
		b.WriteString("\n[cancelled]")
	}
	return b.String()
}

// piBlocks reads the content of a message. Pi talks to many providers and keeps
// their reasoning in one shape.
func piBlocks(m piMessage, who events.Role) ([]events.Block, error) {
	if !isArray(m.content) {
		return contentBlocks(m.content)
	}
	var blocks []events.Block
	var err error
	n := 0
	elements(m.content, func(v []byte) {
		n++
		f := readPart(v)
		switch {
		case !isObject(v):
			if err == nil {
				err = fmt.Errorf("content part %d is a %s, not an object", n, typeName(v))
			}
		case f.typ == "toolCall":
			b := events.Block{Type: events.BlockToolUse, CallID: text(f.id), Name: text(f.name), Input: string(f.arguments)}
			if member(v, "thoughtSignature") != nil {
				b.Raw = string(v)
			}
			blocks = append(blocks, b)
		case f.typ == "thinking":
			blocks = append(blocks, piThinking(m, f, v))
		default:
			blocks = append(blocks, partBlock(v, who == events.RoleTool))
		}
	})
	return blocks, err
}

// piThinking restores the shape the provider gave its reasoning, as far as it
// can be given back: Anthropic's signature, or the name of the field an
// OpenAI-compatible server used. Anything else is kept raw and goes nowhere.
func piThinking(m piMessage, f part, v []byte) events.Block {
	sig := text(f.foreign)
	switch {
	case text(m.api) == "anthropic-messages" && isTrue(f.redacted):
		return events.Block{Type: events.BlockUnknown, Raw: `{"type":"redacted_thinking","data":` + string(f.foreign) + `}`}
	case text(m.api) == "anthropic-messages":
		f.signature = f.foreign
		return thinkingBlock(v, f)
	case isVendorField([]byte(sig)) && isString(f.thinking):
		return events.Block{Type: events.BlockThinking, Text: text(f.thinking), Raw: `{"` + sig + `":` + string(f.thinking) + `}`}
	}
	return events.Block{Type: events.BlockThinking, Text: text(f.thinking), Raw: string(v)}
}
