package grant

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of a ledger.
var (
	// ErrUnknown: revoked, or never opened here. Nothing is allowed on its word.
	ErrUnknown = errors.New("the grant was revoked, or is not of this log")
	ErrSpent   = errors.New("the grant's budget is spent")
	ErrCrowded = errors.New("too many grants descend from one root")
)

// Bounds of a ledger, so that it stays one small value.
const (
	// MaxFamily bounds the live grants under one root.
	MaxFamily = 1024
	// maxPaid is how many of its last charges a grant recognises.
	maxPaid = 64
)

// Ledger is what a root grant and its descendants have spent: one value, so
// that a charge to all ancestors is one atomic write.
type Ledger struct {
	Tenant   string              `json:"tenant"`
	Accounts map[string]*Account `json:"accounts"`
}

// Account is one grant's.
type Account struct {
	Parent  string    `json:"parent,omitempty"`
	Tokens  int       `json:"tokens"`
	Spent   int       `json:"spent"` // that of its descendants included
	Expires time.Time `json:"expires"`
	// Paid are its own last charges, oldest first.
	Paid []Payment `json:"paid,omitempty"`
}

// Payment is a charge that was made, by the key of the call.
type Payment struct {
	Key    string `json:"key"`
	Tokens int    `json:"tokens"`
}

// Open adds a new grant's account.
func (l *Ledger) Open(c Claims, now time.Time) error {
	l.prune(now)
	if l.Accounts == nil {
		l.Tenant, l.Accounts = c.Tenant, map[string]*Account{}
	}
	if p := c.Parent(); p != "" {
		if err := l.Check(p, now); err != nil {
			return err
		}
	}
	if len(l.Accounts) >= MaxFamily {
		return fmt.Errorf("%w: %d are live", ErrCrowded, len(l.Accounts))
	}
	l.Accounts[c.ID] = &Account{Parent: c.Parent(), Tokens: c.Tokens, Expires: c.Expires}
	return nil
}

// prune drops what has expired; descendants never outlive their ancestors, and
// what they spent stands with those.
func (l *Ledger) prune(now time.Time) {
	for id, a := range l.Accounts {
		if !a.Expires.After(now) {
			delete(l.Accounts, id)
		}
	}
}

// lineage is a grant and its ancestors, itself first.
func (l *Ledger) lineage(id string, now time.Time) ([]*Account, error) {
	var out []*Account
	for id != "" {
		a := l.Accounts[id]
		switch {
		case a == nil || len(out) > MaxDepth:
			return nil, ErrUnknown
		case !a.Expires.After(now):
			return nil, ErrExpired
		}
		out, id = append(out, a), a.Parent
	}
	return out, nil
}

// Check says whether a grant still holds.
func (l *Ledger) Check(id string, now time.Time) error {
	_, err := l.lineage(id, now)
	return err
}

// Descends reports whether a live grant is another one or descends from it.
func (l *Ledger) Descends(id, from string) bool {
	for range MaxDepth + 1 {
		a := l.Accounts[id]
		if a == nil || id == from {
			return a != nil
		}
		id = a.Parent
	}
	return false
}

// Left is what a grant may still spend: the least of its own and its
// ancestors'.
func (l *Ledger) Left(id string, now time.Time) (int, error) {
	line, err := l.lineage(id, now)
	if err != nil {
		return 0, err
	}
	return least(line), nil
}

func least(line []*Account) int {
	left := MaxTokens
	for _, a := range line {
		left = min(left, a.Tokens-a.Spent)
	}
	return left
}

// Charge takes tokens from a grant and all its ancestors, or from none. The
// same key again is the same charge: only what it costs more is taken. "" is
// always a new one. changed = the ledger must be written.
func (l *Ledger) Charge(id, key string, tokens int, now time.Time) (left int, changed bool, err error) {
	line, err := l.lineage(id, now)
	if err != nil {
		return 0, false, err
	}
	if tokens < 0 {
		return 0, false, fmt.Errorf("%w: a charge of %d tokens", ErrInvalid, tokens)
	}
	own := line[0]
	i := slices.IndexFunc(own.Paid, func(p Payment) bool { return key != "" && p.Key == key })
	more := tokens
	if i >= 0 {
		more = max(0, tokens-own.Paid[i].Tokens)
	}
	if left = least(line); more > left {
		return left, false, fmt.Errorf("%w: %d tokens are left, %d are needed", ErrSpent, left, more)
	}
	for _, a := range line {
		a.Spent += more
	}
	switch {
	case key == "":
	case i >= 0:
		own.Paid[i].Tokens += more
	default:
		own.Paid = append(own.Paid, Payment{key, tokens})
		own.Paid = own.Paid[max(0, len(own.Paid)-maxPaid):]
	}
	return left - more, more > 0 || key != "" && i < 0, nil
}

// Return gives back tokens that were charged beforehand and not needed, to a
// grant and all its ancestors.
func (l *Ledger) Return(id string, tokens int, now time.Time) error {
	line, err := l.lineage(id, now)
	if err != nil {
		return err
	}
	if tokens < 0 || tokens > line[0].Spent {
		return fmt.Errorf("%w: %d tokens are returned of %d", ErrInvalid, tokens, line[0].Spent)
	}
	for _, a := range line {
		a.Spent -= tokens
	}
	return nil
}

// Revoke ends a grant and everything that descends from it, and says how many
// that were.
func (l *Ledger) Revoke(id string) int {
	if l.Accounts[id] == nil {
		return 0
	}
	delete(l.Accounts, id)
	n := 1
	for child, a := range l.Accounts {
		if a.Parent == id {
			n += l.Revoke(child)
		}
	}
	return n
}
