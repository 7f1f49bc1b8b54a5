package api

import "time"

// QueryIn asks a question of what was condensed.
type QueryIn struct {
	Scope
	Prompt   string   `json:"prompt" jsonschema:"the question, in plain words"`
	Sessions []string `json:"sessions,omitempty" jsonschema:"besides session; none = all that the caller may read"`
	Node     string   `json:"node,omitempty" jsonschema:"only what this summary covers: SESSION/n12"`
	// ExploreTokens bounds what is read to answer and the answer itself, over
	// all sessions together; default 4,000, at most 100,000.
	ExploreTokens int `json:"explore_tokens,omitempty" jsonschema:"tokens read at most, the answer included"`
	// MaxTokens bounds the answer; default 800, at most 2,000.
	MaxTokens int `json:"max_tokens,omitempty" jsonschema:"bounds the answer"`
	// Passages asks for the passages themselves: no model is asked.
	Passages bool `json:"passages,omitempty" jsonschema:"the turns' own words, without a model's answer"`
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

// Citation is an entry that an answer rests on: it is there, and in the scope.
type Citation struct {
	Session string `json:"session"`
	Entry   string `json:"entry"`
	Role    string `json:"role"`
}

// QueryOut answers in a reader's words with citations, or with the passages
// that fit the question best, best first.
type QueryOut struct {
	// Answer names entries as [e12], or [SESSION/e12] where there are several
	// sessions; "" = Passages stand in its place, and NoAnswer says why.
	Answer    string     `json:"answer,omitempty"`
	Citations []Citation `json:"citations,omitempty"`
	// Dropped are what the reader cited that is not there or not in the scope;
	// it was taken out of the answer.
	Dropped  []string  `json:"dropped,omitempty"`
	Passages []Passage `json:"passages"`
	NoAnswer string    `json:"no_answer,omitempty"`
	// Model that was asked, and how often.
	Model    string `json:"model,omitempty"`
	Calls    int    `json:"calls,omitempty"`
	Explored int    `json:"explored"` // tokens that were read
	// Truncated: more could have been read or said than the budgets hold; Why
	// says which: budget, turns, time or length, or what passages left out.
	Truncated bool   `json:"truncated"`
	Why       string `json:"why,omitempty"`
	Token     string `json:"token"`
}
