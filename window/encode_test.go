package window

import (
	"lcm/events"
	"lcm/transcript"
)

// checkFormat holds a context to the rules of a provider.
func checkFormat(t require, c *Context, f transcript.Format) {
	t.Helper()
	e, err := c.Encode(f)
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	if len(e.Messages) == 0 && !speaks(c) {
		return // a session that has said nothing yet
	}
	if err := transcript.Check(f, e); err != nil {
		t.Fatalf("%v", err)
	}
}

// speaks: something besides instructions and reasoning stands in the context.
func speaks(c *Context) bool {
	for _, m := range c.Messages {
		for _, b := range m.Blocks {
			if !m.Role.Pinned() && b.Type != events.BlockThinking && b.Type != events.BlockUnknown {
				return true
			}
		}
	}
	return false
}
