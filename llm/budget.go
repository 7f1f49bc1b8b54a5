package llm

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"lcm/chat"
	"lcm/internal/api"
)

// budget counts what tenants spend in an hour that slides by minutes. It counts
// for this process, since it started.
type budget struct {
	perHour int // tokens of one tenant, 0 = no limit

	mu      sync.Mutex
	tenants map[string]*hour
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
	h := b.tenants[tenant]
	if h == nil || h.total(now) < b.perHour {
		return nil
	}
	h.refused++
	return fmt.Errorf("%w: tenant %s has used %d of %d tokens in the last hour", chat.ErrSpent, cmp.Or(tenant, "(none)"), h.total(now), b.perHour)
}

func (b *budget) spend(tenant string, tokens int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.tenants[tenant]
	if h == nil {
		b.sweep(now)
		h = &hour{last: minute(now)}
		b.tenants[tenant] = h
	}
	h.total(now)
	h.minutes[h.last%slots] += tokens
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
	for name, h := range b.tenants {
		n := h.total(now)
		out.TokensLastHour += n
		out.Tenants = append(out.Tenants, api.TenantSpending{
			Tenant: name, TokensLastHour: n, Refused: h.refused, Spent: b.perHour > 0 && n >= b.perHour,
		})
	}
	slices.SortFunc(out.Tenants, func(x, y api.TenantSpending) int {
		return cmp.Or(cmp.Compare(y.TokensLastHour, x.TokensLastHour), cmp.Compare(x.Tenant, y.Tenant))
	})
	out.Tenants = out.Tenants[:min(len(out.Tenants), shownTenants)]
	return out
}
