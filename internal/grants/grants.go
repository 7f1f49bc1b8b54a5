// Package grants mints, opens, charges and revokes grants: package grant over a
// key and a store of ledgers that all replicas share. It must never import an
// engine.
package grants

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"lcm/grant"
	"lcm/internal/problem"
)

// Store keeps one value per root grant. A write is durable, and happens only
// where the value is still the one that was read.
type Store interface {
	// LoadLedger gives nil and 0 for a root nobody wrote.
	LoadLedger(ctx context.Context, root string) (value []byte, revision uint64, err error)
	// SaveLedger reports false where the revision is no longer the newest.
	SaveLedger(ctx context.Context, root string, value []byte, revision uint64) (bool, error)
}

// Authority is safe for concurrent use; any number of them may share a store.
type Authority struct {
	store Store
	key   func() (grant.Key, error)
	now   func() time.Time

	seed maphash.Seed
	// Writers of one ledger in this process take turns: between processes the
	// store decides.
	turns [32]sync.Mutex
}

// New makes an Authority. key is asked when it is first needed, and again
// where that failed.
func New(store Store, key func() (grant.Key, error), now func() time.Time) *Authority {
	return &Authority{store: store, key: key, now: now, seed: maphash.MakeSeed()}
}

// NewRoot mints a grant that descends from none.
func (a *Authority) NewRoot(ctx context.Context, tenant string, ask grant.Ask) (string, grant.Claims, error) {
	c, err := grant.New(ulid.Make().String(), tenant, ask, a.now())
	if err != nil {
		return "", c, refusal(err)
	}
	return a.open(ctx, c)
}

// NewChild mints a grant within another one. below says which nodes lie below
// which; nil = none.
func (a *Authority) NewChild(ctx context.Context, parent grant.Claims, ask grant.Ask, below func(child, of grant.Node) bool) (string, grant.Claims, error) {
	// The root stands in every id, so that an id alone finds its ledger.
	c, err := grant.Narrow(parent, parent.Root()+"."+ulid.Make().String(), ask, a.now(), below)
	if err != nil {
		return "", c, refusal(err)
	}
	return a.open(ctx, c)
}

func (a *Authority) open(ctx context.Context, c grant.Claims) (string, grant.Claims, error) {
	key, err := a.key()
	if err != nil {
		return "", c, err
	}
	token, err := key.Sign(c)
	if err != nil {
		return "", c, err
	}
	err = a.change(ctx, c.Root(), func(l *grant.Ledger) (bool, error) { return true, l.Open(c, a.now()) })
	return token, c, err
}

// Open verifies a token and that it still holds.
func (a *Authority) Open(ctx context.Context, token string) (grant.Claims, error) {
	key, err := a.key()
	if err != nil {
		return grant.Claims{}, err
	}
	c, err := key.Open(token, a.now())
	if err != nil {
		return c, refusal(err)
	}
	l, _, err := a.load(ctx, c.Root())
	if err != nil {
		return c, err
	}
	return c, refusal(l.Check(c.ID, a.now()))
}

// Left is what a grant may still spend.
func (a *Authority) Left(ctx context.Context, c grant.Claims) (int, error) {
	l, _, err := a.load(ctx, c.Root())
	if err != nil {
		return 0, err
	}
	left, err := l.Left(c.ID, a.now())
	return left, refusal(err)
}

// Charge takes tokens from a grant and all its ancestors, or from none; the
// same key again is the same charge.
func (a *Authority) Charge(ctx context.Context, c grant.Claims, key string, tokens int) (left int, err error) {
	err = a.change(ctx, c.Root(), func(l *grant.Ledger) (changed bool, err error) {
		left, changed, err = l.Charge(c.ID, key, tokens, a.now())
		return changed, err
	})
	return left, err
}

// Return gives back tokens that were charged beforehand and not needed.
func (a *Authority) Return(ctx context.Context, c grant.Claims, tokens int) error {
	return a.change(ctx, c.Root(), func(l *grant.Ledger) (bool, error) { return true, l.Return(c.ID, tokens, a.now()) })
}

// Revoke ends a grant of a tenant and what descends from it. by, where it is
// not nil, must be an ancestor of it, or itself.
func (a *Authority) Revoke(ctx context.Context, tenant, id string, by *grant.Claims) (n int, err error) {
	unknown := problem.New(problem.NotFound, "there is no live grant %s", id)
	root, _, _ := strings.Cut(id, ".")
	err = a.change(ctx, root, func(l *grant.Ledger) (bool, error) {
		if l.Tenant != tenant || l.Accounts[id] == nil || by != nil && !l.Descends(id, by.ID) {
			return false, unknown
		}
		n = l.Revoke(id)
		return true, nil
	})
	return n, err
}

func (a *Authority) load(ctx context.Context, root string) (*grant.Ledger, uint64, error) {
	value, revision, err := a.store.LoadLedger(ctx, root)
	if err != nil {
		return nil, 0, err
	}
	l := new(grant.Ledger)
	if value != nil {
		if err := json.Unmarshal(value, l); err != nil {
			return nil, 0, problem.New(problem.Damaged, "the ledger of grant %s cannot be read: %w", root, err).WithHint("its grants are void: mint new ones")
		}
	}
	return l, revision, nil
}

// change reads a ledger, changes it and writes it, until nobody came between.
func (a *Authority) change(ctx context.Context, root string, f func(*grant.Ledger) (bool, error)) error {
	turn := &a.turns[maphash.String(a.seed, root)%uint64(len(a.turns))]
	turn.Lock()
	defer turn.Unlock()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		l, revision, err := a.load(ctx, root)
		if err != nil {
			return err
		}
		changed, err := f(l)
		if err != nil || !changed {
			return refusal(err)
		}
		value, err := json.Marshal(l)
		if err != nil {
			return err
		}
		if ok, err := a.store.SaveLedger(ctx, root, value, revision); err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return problem.New(problem.Unavailable, "the budget of grant %s is being charged by others: %w", root, ctx.Err())
		case <-time.After(rand.N(pause)):
		}
	}
}

// refusal gives an error of package grant its code.
func refusal(err error) error {
	code := problem.Code("")
	switch {
	case errors.Is(err, grant.ErrInvalid), errors.Is(err, grant.ErrUnguarded):
		code = problem.Invalid
	case errors.Is(err, grant.ErrWider):
		code = problem.Forbidden
	case errors.Is(err, grant.ErrToken), errors.Is(err, grant.ErrExpired), errors.Is(err, grant.ErrUnknown):
		code = problem.Unauthorized
	case errors.Is(err, grant.ErrSpent), errors.Is(err, grant.ErrCrowded):
		code = problem.Limited
	default:
		return err
	}
	return problem.New(code, "%w", err).WithHint("%s", hints[code])
}

var hints = map[problem.Code]string{
	problem.Invalid:      "see `lcm grant mint --help`",
	problem.Forbidden:    "ask whoever holds more for another grant",
	problem.Unauthorized: "ask for a new grant",
	problem.Limited:      "ask for less, with max_tokens or limit, or for another grant",
}
