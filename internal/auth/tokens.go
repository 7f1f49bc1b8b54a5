package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/internal/wholefile"
)

// tokenPrefix begins every token, so that scanners of leaked secrets find them.
const tokenPrefix = "lcm_"

// Token is one line of the file: everything but the secret.
type Token struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Tenant   string    `json:"tenant,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
	Operator bool      `json:"operator,omitempty"`
	Hash     string    `json:"hash,omitempty"` // SHA-256 of the secret, whose 256 bits are random
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"` // zero = never
}

// Tokens is the file of bearer tokens. What changes in it counts at once. It is
// safe for concurrent use, also by other processes.
type Tokens struct {
	path string

	mu   sync.Mutex
	info fs.FileInfo // of what was read
	list []Token
}

// NewTokens opens a file, which need not exist yet.
func NewTokens(path string) *Tokens { return &Tokens{path: path} }

// Path of the file.
func (t *Tokens) Path() string { return t.path }

// List gives the tokens, oldest first.
func (t *Tokens) List() ([]Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		t.info, t.list = nil, nil
		return nil, nil
	}
	if err != nil {
		return nil, t.unreadable(err)
	}
	if t.info != nil && os.SameFile(t.info, info) && t.info.ModTime().Equal(info.ModTime()) && t.info.Size() == info.Size() {
		return t.list, nil
	}
	b, err := os.ReadFile(t.path)
	if err != nil {
		return nil, t.unreadable(err)
	}
	var list []Token
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, t.unreadable(err)
	}
	t.info, t.list = info, list
	return list, nil
}

func (t *Tokens) unreadable(err error) error {
	return problem.New(problem.Unavailable, "the tokens in %s cannot be read: %w", t.path, err).WithHint("`lcm token list` reads the same file")
}

// Caller says whose token it is.
func (t *Tokens) Caller(bearer string, now time.Time) (api.Caller, error) {
	list, err := t.List()
	if err != nil {
		return api.Caller{}, err
	}
	id, secret, _ := strings.Cut(strings.TrimPrefix(bearer, tokenPrefix), "_")
	found := Token{Hash: hash("")} // compared with also where there is none
	for _, one := range list {
		if one.ID == id {
			found = one
		}
	}
	same := subtle.ConstantTimeCompare([]byte(found.Hash), []byte(hash(secret))) == 1
	if !same || found.ID == "" || !found.Expires.IsZero() && !found.Expires.After(now) {
		return api.Caller{}, errWho
	}
	return api.Caller{Name: found.Name, Tenant: found.Tenant, Scopes: found.Scopes, Operator: found.Operator}, nil
}

func hash(secret string) string {
	h := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(h[:])
}

// Secret makes 256 random bits as text.
func Secret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Add makes a token and returns it: it is nowhere else.
func (t *Tokens) Add(n Token) (string, Token, error) {
	if err := validToken(n); err != nil {
		return "", n, err
	}
	b := make([]byte, 5)
	_, _ = rand.Read(b)
	secret := Secret()
	n.ID, n.Hash = hex.EncodeToString(b), hash(secret)
	err := t.change(func(list []Token) ([]Token, error) { return append(list, n), nil })
	return tokenPrefix + n.ID + "_" + secret, n, err
}

func validToken(n Token) error {
	if strings.TrimSpace(n.Name) == "" {
		return problem.New(problem.Invalid, "the token has no name").WithHint("name who will use it")
	}
	if n.Operator {
		if n.Tenant != "" || len(n.Scopes) > 0 {
			return problem.New(problem.Invalid, "an operator's token has neither tenant nor scopes: it may do everything")
		}
		return nil
	}
	if err := (events.Ref{Tenant: n.Tenant, Session: "x"}).Validate(); err != nil {
		return problem.New(problem.Invalid, "%w", err)
	}
	if len(n.Scopes) == 0 {
		return problem.New(problem.Invalid, "the token has no scope").WithHint("scopes are %s", strings.Join(api.Scopes(), ", "))
	}
	for _, s := range n.Scopes {
		if !slices.Contains(api.Scopes(), s) {
			return problem.New(problem.Invalid, "there is no scope %q", s).WithHint("scopes are %s", strings.Join(api.Scopes(), ", "))
		}
	}
	return nil
}

// Revoke ends a token.
func (t *Tokens) Revoke(id string) error {
	return t.change(func(list []Token) ([]Token, error) {
		i := slices.IndexFunc(list, func(one Token) bool { return one.ID == id })
		if i < 0 {
			return nil, problem.New(problem.NotFound, "there is no token %q", id).WithHint("`lcm token list` shows their ids")
		}
		return slices.Delete(slices.Clone(list), i, i+1), nil
	})
}

// change rewrites the file as a whole, one process at a time.
func (t *Tokens) change(f func([]Token) ([]Token, error)) error {
	if err := os.MkdirAll(filepath.Dir(t.path), 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(t.path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	list, err := t.List()
	if err != nil {
		return err
	}
	if list, err = f(slices.Clone(list)); err != nil {
		return err
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.Write(t.path, append(b, '\n'), 0o600)
}
