package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"lcm/chat"
	"lcm/internal/api"
)

// Ledger shares what tenants spend with the other processes, and with the next
// life of this one. What is told of a process and tenant replaces what was told
// before; it is forgotten after some hours.
type Ledger interface {
	SaveSpending(ctx context.Context, process, tenant string, value []byte) error
	EachSpending(ctx context.Context, each func(process, tenant string, value []byte)) error
}

// budget counts what tenants spend in an hour that slides by minutes: this
// process since it started, and what others have told.
type budget struct {
	perHour int // tokens of one tenant, 0 = no limit

	process string // name of this one in the ledger
	ledger  Ledger // nil = none
	saving  sync.Mutex

	mu      sync.Mutex
	tenants map[string]*hour
	others  map[string]map[string]*hour // tenant → process
}

// slots of an hour, a minute each.
const slots = 60

// hour is what one tenant spent, minute by minute.
type hour struct {
	minutes [slots]int
	last    int64 // minute of the newest slot, since the epoch
	refused uint64
}

// shownTenants of a report.
const shownTenants = 20

func newBudget(perHour int) *budget { return &budget{perHour: perHour, tenants: map[string]*hour{}} }

func minute(now time.Time) int64 { return now.Unix() / 60 }

// total of the hour before now; older minutes are forgotten.
func (h *hour) total(now time.Time) int {
	m := minute(now)
	for n := 0; h.last < m && n < slots; n++ {
		h.last++
		h.minutes[h.last%slots] = 0
	}
	h.last = max(h.last, m)
	sum := 0
	for _, n := range h.minutes {
		sum += n
	}
	return sum
}

// admit refuses a tenant whose hour is spent, unless the call finishes what was
// begun.
func (b *budget) admit(tenant string, continues bool, now time.Time) error {
	if b.perHour == 0 || continues {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.used(tenant, now)
	if used < b.perHour {
		return nil
	}
	b.of(tenant, now).refused++
	return fmt.Errorf("%w: tenant %s has used %d of %d tokens in the last hour", chat.ErrSpent, cmp.Or(tenant, "(none)"), used, b.perHour)
}

// used is what a tenant spent in the last hour, wherever.
func (b *budget) used(tenant string, now time.Time) int {
	n := 0
	if h := b.tenants[tenant]; h != nil {
		n = h.total(now)
	}
	for _, h := range b.others[tenant] {
		n += h.total(now)
	}
	return n
}

func (b *budget) of(tenant string, now time.Time) *hour {
	h := b.tenants[tenant]
	if h == nil {
		b.sweep(now)
		h = &hour{last: minute(now)}
		b.tenants[tenant] = h
	}
	return h
}

func (b *budget) spend(tenant string, tokens int, now time.Time) {
	b.mu.Lock()
	h := b.of(tenant, now)
	h.total(now)
	h.minutes[h.last%slots] += tokens
	b.mu.Unlock()
	b.tell(tenant)
}

// tellWithin bounds how long a call waits until what it cost is told. What is
// not told in time still counts here, and is told with the next call.
const tellWithin = 2 * time.Second

// told is an hour as the ledger keeps it.
type told struct {
	Last    int64      `json:"last"`
	Minutes [slots]int `json:"minutes"`
}

// tell saves a tenant's hour, the newest last.
func (b *budget) tell(tenant string) {
	if b.ledger == nil {
		return
	}
	b.saving.Lock()
	defer b.saving.Unlock()
	b.mu.Lock()
	h := b.tenants[tenant]
	if h == nil { // an hour has passed meanwhile
		b.mu.Unlock()
		return
	}
	value, err := json.Marshal(told{h.last, h.minutes})
	b.mu.Unlock()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellWithin)
	defer cancel()
	_ = b.ledger.SaveSpending(ctx, b.process, tenant, value)
}

// learn reads what others have told.
func (b *budget) learn(ctx context.Context) error {
	others := map[string]map[string]*hour{}
	err := b.ledger.EachSpending(ctx, func(process, tenant string, value []byte) {
		var t told
		if process == b.process || json.Unmarshal(value, &t) != nil {
			return
		}
		if others[tenant] == nil {
			others[tenant] = map[string]*hour{}
		}
		others[tenant][process] = &hour{minutes: t.Minutes, last: t.Last}
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.others = others
	return nil
}

// sweep forgets tenants that have spent nothing for an hour.
func (b *budget) sweep(now time.Time) {
	for name, h := range b.tenants {
		if h.total(now) == 0 {
			delete(b.tenants, name)
		}
	}
}

func (b *budget) report(now time.Time) *api.Spending {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	out := &api.Spending{LimitTokensPerHour: b.perHour, Tenants: []api.TenantSpending{}}
	for name, h := range b.tenants { // its own share: reports of all processes stand beside each other
		n := h.total(now)
		out.TokensLastHour += n
		out.Tenants = append(out.Tenants, api.TenantSpending{
			Tenant: name, TokensLastHour: n, Refused: h.refused, Spent: b.perHour > 0 && b.used(name, now) >= b.perHour,
		})
	}
	slices.SortFunc(out.Tenants, func(x, y api.TenantSpending) int {
		return cmp.Or(cmp.Compare(y.TokensLastHour, x.TokensLastHour), cmp.Compare(x.Tenant, y.Tenant))
	})
	out.Tenants = out.Tenants[:min(len(out.Tenants), shownTenants)]
	return out
}
