// Package llm calls model providers. It holds two thin clients,
// OpenAI-compatible chat completions and Anthropic messages, over one transport
// that retries, limits the rate, and stops calling a provider whose answers
// show that calling is useless.
//
// Both chat, and implement condense.Summarizer. What comes back is either a
// text with the reason it ended, or one of chat's errors: an error body never
// becomes a text, and a key never stands in an error.
//
// It is an adapter: it may import the pure packages; never another adapter or
// a service.
package llm
