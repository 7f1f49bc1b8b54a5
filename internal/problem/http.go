package problem

import (
	"encoding/json"
	"maps"
	"net/http"
)

// Respond answers with RFC 9457 problem details; more are extension members, as
// the RFC calls them.
func Respond(w http.ResponseWriter, p *Error, more map[string]any) {
	if p.Status() == 0 { // a code of a later build
		p = New(Internal, "%s: %s", p.Code, p.Text)
	}
	out := map[string]any{
		"type": "about:blank", "title": http.StatusText(p.Status()), "status": p.Status(),
		"code": p.Code, "detail": p.Text, "hint": p.Hint,
	}
	maps.Copy(out, more)
	if p.Code == Unauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="lcm"`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status())
	_ = json.NewEncoder(w).Encode(out) // the client is gone: nobody to tell
}
