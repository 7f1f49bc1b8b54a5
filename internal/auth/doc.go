// Package auth decides who calls: bearer tokens, OpenID tokens, grants, or
// loopback itself. It puts an api.Caller into the context of every request
// that may pass; what the caller may do is decided by the table of tools.
//
// It must never import an engine, an adapter or another service.
package auth

import (
	"net/http"

	"lcm/internal/api"
)

// As serves every request in the name of one caller: for handlers that only
// this process reaches, and for loopback without authentication.
func As(c api.Caller, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(api.WithCaller(r.Context(), c)))
	})
}
