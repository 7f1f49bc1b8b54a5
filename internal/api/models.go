package api

import "time"

// ModelState is how one model provider does, as one process has seen it since
// it started.
type ModelState struct {
	Provider string `json:"provider"` // family and host
	Model    string `json:"model"`
	// Breaker is the cause for which calls fail at once, "" = they go out:
	// refused (key, model or URL), quota, outage. Retry is when one may probe.
	Breaker     string     `json:"breaker,omitempty"`
	Retry       *time.Time `json:"retry,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
	Calls       uint64     `json:"calls"` // HTTP attempts
	Failed      uint64     `json:"failed"`
	// Tokens as the provider reported.
	InputTokens  uint64 `json:"input_tokens"`
	OutputTokens uint64 `json:"output_tokens"`
}

// Spending of tenants on models, of one process, in the hour before.
type Spending struct {
	LimitTokensPerHour int              `json:"limit_tokens_per_hour"` // of each tenant, 0 = none
	TokensLastHour     int              `json:"tokens_last_hour"`
	Tenants            []TenantSpending `json:"tenants"` // the most first
}

// TenantSpending is what one tenant spent. Spent: it waits until less of it is
// an hour old. Refused counts calls that were not made because of it.
type TenantSpending struct {
	Tenant         string `json:"tenant"`
	TokensLastHour int    `json:"tokens_last_hour"`
	Refused        uint64 `json:"refused"`
	Spent          bool   `json:"spent"`
}

// ModelProcess is what one process that asks models tells about them.
type ModelProcess struct {
	Process  string       `json:"process"` // host and process id
	Models   []ModelState `json:"models"`
	Spending *Spending    `json:"spending"`
}

// Progress of one projector: positions of the log, and its debt.
type Progress struct {
	Applied uint64 // rows
	Indexed uint64 // documents
	Due     int    // sessions that wait for condensing
	// OldestDue is since when the first of them waits, as far as this process
	// has seen; zero where none does.
	OldestDue time.Time
}
