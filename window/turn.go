package window

import (
	"slices"
	"strings"
	"unicode"

	"lcm/events"
)

// Texts the engine puts where a provider needs something and the turn has
// nothing. They are rendered, never stored.
const (
	noResult    = "[no result recorded]"
	emptyResult = "[empty result]"
	toolOutput  = "[lcm:tool-output whose call is not known]"
	toolCall    = "[lcm:tool-call without an id]"
	noName      = "unnamed_tool"
)

// decompose splits a turn into what stands in its own message and the tool
// results that belong behind their calls, in order. What no provider accepts
// is left out (blank text) or told as text (a call without an id). Both are
// nil where nothing can be rendered. The k-th result is the one the turn's
// Results names k-th. The blocks are shared with the turn: not to be changed.
func decompose(t *events.TurnAppended) (main, results []events.Block) {
	blocks := t.AllBlocks()
	if plain(t.Role, blocks) {
		return blocks, nil
	}
	shown := false // something besides blocks nobody knows
	for _, b := range blocks {
		switch b.Type {
		case events.BlockText:
			if blank(b.Text) {
				continue
			}
		case events.BlockThinking:
			if t.Role != events.RoleAssistant || b.Text == "" && b.Signature == "" {
				continue
			}
		case events.BlockToolUse:
			if t.Role != events.RoleAssistant || b.CallID == "" {
				b = textBlock(strings.TrimSpace(toolCall + "\n" + b.Name + " " + b.Input))
			} else if b.Name == "" {
				b.Name, b.Raw = noName, ""
			}
		case events.BlockToolResult:
			if b.CallID != "" {
				results = append(results, filled(b))
				continue
			}
			main, shown = append(append(main, textBlock(toolOutput)), said(filled(b))...), true
			continue
		case events.BlockImage:
			if b.Data == "" && b.URL == "" {
				continue
			}
		case events.BlockDocument:
			if b.Data == "" && b.URL == "" && blank(b.Text) {
				continue
			}
		default:
			if b.Raw != "" {
				main = append(main, b)
			}
			continue
		}
		main, shown = append(main, b), true
	}
	if !shown {
		main = nil
	}
	if t.Role == events.RoleTool && main != nil {
		main = append([]events.Block{textBlock(toolOutput)}, main...)
	}
	return main, results
}

// plain: blocks that are shown as they are; the usual case, without a copy.
func plain(role events.Role, blocks []events.Block) bool {
	if role == events.RoleTool || len(blocks) == 0 {
		return false
	}
	for i := range blocks {
		b := &blocks[i]
		ok := b.Type == events.BlockText && !blank(b.Text) ||
			b.Type == events.BlockToolUse && role == events.RoleAssistant && b.CallID != "" && b.Name != ""
		if !ok {
			return false
		}
	}
	return true
}

// filled leaves blank texts out of a result and gives one that says nothing a
// text: providers refuse empty content.
func filled(b events.Block) events.Block {
	isBlank := func(c events.Block) bool { return c.Type == events.BlockText && blank(c.Text) }
	if slices.ContainsFunc(b.Content, isBlank) {
		b.Content = slices.DeleteFunc(slices.Clone(b.Content), isBlank)
		b.Raw = ""
	}
	if len(b.Content) == 0 && blank(b.Text) {
		b.Text, b.Content, b.Raw = "", []events.Block{textBlock(emptyResult)}, ""
	}
	return b
}

// said is what a result says, as blocks of a message that is not a tool's.
func said(b events.Block) []events.Block {
	var out []events.Block
	if !blank(b.Text) {
		out = append(out, textBlock(b.Text))
	}
	for _, c := range b.Content {
		switch {
		case c.Type == events.BlockText && blank(c.Text):
		case c.Type == events.BlockText, c.Type == events.BlockImage, c.Type == events.BlockDocument:
			out = append(out, c)
		}
	}
	return out
}

// blank: providers refuse text of white space and separators only.
func blank(s string) bool {
	for _, r := range s {
		if !unicode.IsSpace(r) && (r < 0x1c || r > 0x1f) {
			return false
		}
	}
	return true
}

func textBlock(s string) events.Block { return events.Block{Type: events.BlockText, Text: s} }
