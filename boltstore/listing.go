package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"lcm/events"
)

// Sessions implements api.RowsTx.
func (t *Tx) Sessions(tenant, prefix, after string, limit int) ([]string, error) {
	if len(tenant) > events.MaxNameBytes {
		return nil, nil
	}
	base := nameKey(events.Ref{Tenant: tenant})
	from := nameKey(events.Ref{Tenant: tenant, Session: prefix})
	if after >= prefix && after != "" {
		from = append(nameKey(events.Ref{Tenant: tenant, Session: after}), 0)
	}
	var out []string
	if limit <= 0 {
		return nil, nil
	}
	err := t.scan(bucketName, from, func(k, _ []byte) (bool, error) {
		if !bytes.HasPrefix(k, base) {
			return false, nil
		}
		name := string(k[len(base):])
		if !strings.HasPrefix(name, prefix) {
			return false, nil
		}
		out = append(out, name)
		return len(out) < limit, nil
	})
	return out, err
}

// EachSession implements api.RowsTx.
func (t *Tx) EachSession(after uint64, limit int) (refs []events.Ref, next uint64, err error) {
	next = after
	err = t.scan(bucketSession, num(after+1), func(k, v []byte) (bool, error) {
		ref, err := parseNameKey(v)
		if err != nil {
			return false, err
		}
		refs, next = append(refs, ref), binary.BigEndian.Uint64(k)
		return len(refs) < limit, nil
	})
	return refs, next, err
}

// VerifyRows implements api.AuditTx.
func (t *Tx) VerifyRows(after []byte, limit int) (next []byte, bad []string, err error) {
	from := []byte{}
	if after != nil {
		from = append(bytes.Clone(after), 0)
	}
	seen := 0
	err = t.scan(bucketRows, from, func(k, v []byte) (bool, error) {
		if !intact(k, v) {
			bad = append(bad, t.describe(k))
		}
		if seen++; seen == limit {
			next = bytes.Clone(k)
		}
		return seen < limit, nil
	})
	return next, bad, err
}

// describe names a row for people.
func (t *Tx) describe(k []byte) string {
	if len(k) < prefixBytes {
		return fmt.Sprintf("row %x", k)
	}
	ref, err := t.refOf(binary.BigEndian.Uint64(k))
	if err != nil {
		return fmt.Sprintf("row %s of an unknown session", rowName(k))
	}
	return fmt.Sprintf("row %s of session %s", rowName(k), ref)
}

// rowName is the kind and key of a row: "e 12", "i \"turn-7\"".
func rowName(k []byte) string {
	kind, key := k[prefixBytes-1], k[prefixBytes:]
	if len(key) == 8 {
		return fmt.Sprintf("%c %d", kind, binary.BigEndian.Uint64(key))
	}
	return fmt.Sprintf("%c %q", kind, key)
}
