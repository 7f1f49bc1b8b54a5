package api

import "time"

// QueryIn asks a question of what was condensed.
type QueryIn struct {
	Scope
	Prompt   string   `json:"prompt"`
	Sessions []string `json:"sessions,omitempty"` // besides Session; none = all that the caller may read
	Node     string   `json:"node,omitempty"`     // only what this summary covers: SESSION/n12
	// ExploreTokens bounds what is read to answer, over all sessions together;
	// default 4,000, at most 100,000.
	ExploreTokens int `json:"explore_tokens,omitempty"`
	// MaxTokens bounds the passages of the answer; default 800, at most 2,000.
	MaxTokens int `json:"max_tokens,omitempty"`
}

// Passage is a part of a turn, word for word.
type Passage struct {
	Session string    `json:"session"`
	Entry   string    `json:"entry"`
	Role    string    `json:"role"`
	Time    time.Time `json:"time"`
	Text    string    `json:"text"`
	Clipped bool      `json:"clipped"` // Text is the part around what was found
}

// QueryOut answers with the passages that fit the question best, best first.
type QueryOut struct {
	Passages []Passage `json:"passages"`
	Explored int       `json:"explored"` // tokens that were read
	// Truncated: more was found than the budgets hold; Why says which.
	Truncated bool   `json:"truncated"`
	Why       string `json:"why,omitempty"`
	Token     string `json:"token"`
}
