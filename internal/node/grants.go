package node

import (
	"path/filepath"
	"sync"
	"time"

	"lcm/grant"
	"lcm/internal/auth"
	"lcm/internal/grants"
)

// authority over grants, made once.
func (n *Node) authority() *grants.Authority {
	if n.grants == nil {
		n.grants = n.openGrants()
	}
	return n.grants
}

// openGrants makes the authority over grants. Its key is read when it is first
// needed: reading alone leaves nothing behind in a data directory.
func (n *Node) openGrants() *grants.Authority {
	path, mayMake := n.cfg.Auth.GrantKey, false
	if path == "" {
		path, mayMake = filepath.Join(n.cfg.DataDir, "grant.key"), true
	}
	var mu sync.Mutex
	var key *grant.Key
	return grants.New(n.log, func() (grant.Key, error) {
		mu.Lock()
		defer mu.Unlock()
		if key != nil {
			return *key, nil
		}
		k, err := auth.GrantKey(path, mayMake)
		if err == nil {
			key = &k
		}
		return k, err
	}, time.Now)
}
