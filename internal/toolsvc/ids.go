package toolsvc

import (
	"strconv"
	"strings"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// thing is what an id names.
type thing struct {
	kind string // node, entry, file, session
	n    uint64
	file string
}

// sessionPrefix makes an id a session's name, whatever the name looks like:
// session:e12 is the session called e12.
const sessionPrefix = "session:"

// NamesSession reports an id with its session in front.
func NamesSession(id string) bool {
	return strings.HasPrefix(id, sessionPrefix) || strings.Contains(id, "/")
}

// parseID reads #12, n12, e12 or file:<id>, with SESSION/ in front where the
// call names no session. Without a session and without such an id it is a
// session's name.
func parseID(scope *api.Scope, id string) (thing, error) {
	if id == "" && scope.Session == "" {
		return thing{}, problem.New(problem.Invalid, "no id is given").WithHint("ids are #12 (or n12), e12, file:<id>, with SESSION/ in front across sessions")
	}
	if id == "" {
		return thing{kind: "session"}, nil
	}
	if scope.Session != "" {
		t, ok := parseLocal(id)
		if !ok {
			return thing{}, problem.New(problem.Invalid, "%q is no id", id).WithHint("ids are #12 (or n12), e12, file:<id>")
		}
		return t, nil
	}
	if name, ok := strings.CutPrefix(id, sessionPrefix); ok && name != "" {
		scope.Session = name
		return thing{kind: "session"}, nil
	}
	if i := strings.LastIndexByte(id, '/'); i > 0 {
		if t, ok := parseLocal(id[i+1:]); ok {
			scope.Session = id[:i]
			return t, nil
		}
	}
	if _, ok := parseLocal(id); ok {
		return thing{}, problem.New(problem.Invalid, "%q names no session", id).WithHint("write SESSION/%s, or %s%s for the session of that name", strings.Replace(id, "#", "n", 1), sessionPrefix, id)
	}
	scope.Session = id
	return thing{kind: "session"}, nil
}

func parseLocal(id string) (thing, bool) {
	if f, ok := strings.CutPrefix(id, "file:"); ok && f != "" {
		return thing{kind: "file", file: f}, true
	}
	if len(id) < 2 {
		return thing{}, false
	}
	n, err := strconv.ParseUint(id[1:], 10, 64)
	if err != nil || n == 0 {
		return thing{}, false
	}
	switch id[0] {
	case '#', 'n':
		return thing{kind: "node", n: n}, true
	case 'e':
		return thing{kind: "entry", n: n}, true
	}
	return thing{}, false
}

// parseRange reads e1..e9, e5, or "" for everything.
func parseRange(r string) ([]events.Range, error) {
	if r == "" {
		return nil, nil
	}
	a, b, two := strings.Cut(r, "..")
	if !two {
		b = a
	}
	first, ok1 := parseLocal(a)
	last, ok2 := parseLocal(b)
	if !ok1 || !ok2 || first.kind != "entry" || last.kind != "entry" || first.n > last.n {
		return nil, problem.New(problem.Invalid, "%q is no range of entries", r).WithHint("write e3..e9, or e5 for one")
	}
	return []events.Range{{First: first.n, Last: last.n}}, nil
}

func entryID(n uint64) string {
	if n == 0 {
		return ""
	}
	return "e" + strconv.FormatUint(n, 10)
}

func nodeID(n uint64) string {
	if n == 0 {
		return ""
	}
	return "#" + strconv.FormatUint(n, 10)
}

func span(first, last uint64) string { return entryID(first) + ".." + entryID(last) }
