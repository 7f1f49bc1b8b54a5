package window

import "lcm/transcript"

// Encode writes the context in a provider's format.
func (c *Context) Encode(f transcript.Format) (transcript.Encoded, error) {
	return transcript.Encode(f, c.Messages)
}
