package api

import "time"

// GrantIn asks for a grant. Under a grant (Scope.Grant, or one as bearer) the
// new one descends from that: what is left empty is taken from it, and
// delegated_scope and kept_work are needed.
type GrantIn struct {
	Scope
	Sessions []string `json:"sessions,omitempty"` // as a whole
	Nodes    []string `json:"nodes,omitempty"`    // SESSION/n12, with what lies below
	Tools    []string `json:"tools,omitempty"`    // default describe, expand, grep
	// Tokens that answers may hold in all; default 4,000.
	Tokens     int `json:"tokens,omitempty"`
	TTLSeconds int `json:"ttl_seconds,omitempty"` // default 600
	// Depth is how many generations may descend from it; default 0.
	Depth          int    `json:"depth,omitempty"`
	DelegatedScope string `json:"delegated_scope,omitempty"`
	KeptWork       string `json:"kept_work,omitempty"`
}

// GrantOut is a grant: Grant is the token, to be sent as bearer token or as the
// parameter grant.
type GrantOut struct {
	Grant    string    `json:"grant"`
	ID       string    `json:"id"` // to revoke it
	Sessions []string  `json:"sessions"`
	Nodes    []string  `json:"nodes"`
	Tools    []string  `json:"tools"`
	Tokens   int       `json:"tokens"`
	Depth    int       `json:"depth"`
	Expires  time.Time `json:"expires"`
}

// RevokeIn names a grant to end, with all that descend from it.
type RevokeIn struct {
	Scope
	ID string `json:"id"`
}

// RevokeOut says how many grants that were.
type RevokeOut struct {
	Revoked int `json:"revoked"`
}
