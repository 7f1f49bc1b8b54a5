package explore

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// table recognises columns: a separator that stands as often in every one of
// the first lines, with names of columns above them.
func (f file) table() (kind, summary string, ok bool) {
	const least = 3 // lines
	for _, sep := range []byte{'\t', ',', ';'} {
		rows, even := cells(f.sample(), sep)
		if !even || len(rows) < least || len(rows[0]) < 2 || len(rows[0]) < 3 && sep != '\t' || !plain(rows[0]) {
			continue // prose has commas, code has them too
		}
		kind, summary = f.columns(rows, sep)
		return kind, summary, true
	}
	return "", "", false
}

// namedTable takes the separator that the first line has most.
func (f file) namedTable() (kind, summary string) {
	seps := []byte{',', ';', '\t'}
	if f.hint == "tsv" {
		seps = []byte{'\t'}
	}
	first, _, _ := bytes.Cut(bytes.TrimLeft(f.sample(), "\r\n"), []byte{'\n'})
	sep := seps[0]
	for _, c := range seps {
		if bytes.Count(first, []byte{c}) > bytes.Count(first, []byte{sep}) {
			sep = c
		}
	}
	rows, _ := cells(f.sample(), sep)
	return f.columns(rows, sep)
}

// columns names the columns of a table by its first row, or by their numbers
// and what they hold.
func (f file) columns(rows [][]string, sep byte) (kind, summary string) {
	kind = "csv"
	if sep == '\t' {
		kind = "tsv"
	}
	n, title := countLines(f.body), strings.ToUpper(kind)+", "
	var ns names
	if hasHeader(rows) {
		for i, c := range rows[0] {
			if c == "" {
				c = "column " + grouped(i+1)
			}
			ns.add(c)
		}
		return kind, ns.after(title + plural(n-1, "row") + ", " + plural(len(rows[0]), "column") + ": ")
	}
	for i := range rows[0] {
		ns.add(grouped(i+1) + " " + held(rows, i))
	}
	return kind, ns.after(title + plural(n, "row") + ", " + plural(len(rows[0]), "column") + " without names: ")
}

// hasHeader tells names of columns from a first row of data: names are no
// values themselves, and do not come again in their columns.
func hasHeader(rows [][]string) bool {
	named := 0
	for i, c := range rows[0] {
		c = strings.TrimSpace(c)
		if c == "" {
			continue
		}
		named++
		if len(c) > 2*maxName || valueType(c) != "text" || slices.Contains(rows[0][:i], c) && len(rows) > 1 {
			return false
		}
		for _, row := range rows[1:] {
			if i < len(row) && row[i] == c {
				return false
			}
		}
	}
	return named*2 > len(rows[0])
}

// held is the type that all cells of a column have.
func held(rows [][]string, column int) string {
	found := ""
	for _, row := range rows {
		if column >= len(row) || strings.TrimSpace(row[column]) == "" {
			continue
		}
		switch t := valueType(strings.TrimSpace(row[column])); {
		case found == "" || found == t:
			found = t
		default:
			return "text"
		}
	}
	if found == "" {
		return "empty"
	}
	return found
}

// valueType is "number", "date", "code" for what has digits and marks within
// (versions, addresses, hashes, paths), else "text".
func valueType(c string) string {
	if _, err := strconv.ParseFloat(strings.Trim(c, "$€£%"), 64); err == nil {
		return "number"
	}
	if like([]byte(c), "0000-00-00") || like([]byte(c), "00/00/0000") || like([]byte(c), "00.00.0000") || like([]byte(c), "00:00") {
		return "date"
	}
	digits := strings.ContainsAny(c, "0123456789")
	if digits && (strings.ContainsAny(c, ".:/@+=") || len(c) >= 12 && strings.Trim(strings.ToLower(c), "0123456789abcdef-") == "") ||
		strings.Contains(c, "://") || strings.Contains(c, "@") {
		return "code"
	}
	return "text"
}

// cells reads the first rows, and whether all have as many cells.
func cells(b []byte, sep byte) (rows [][]string, even bool) {
	const looked = 20
	even = true
	eachLine(b, func(line []byte) bool {
		if len(bytes.TrimSpace(line)) == 0 {
			return true
		}
		row := split(line, sep)
		if len(rows) > 0 && len(row) != len(rows[0]) {
			even = even && bytes.IndexByte(line, '"') >= 0 // a quoted cell may hold a line's end
			return even
		}
		rows = append(rows, row)
		return len(rows) < looked
	})
	return rows, even
}

// split reads the cells of a line by RFC 4180.
func split(line []byte, sep byte) []string {
	const most = 4096
	var cells []string
	for len(cells) < most {
		var cell []byte
		if len(line) > 0 && line[0] == '"' {
			end := 1
			for end < len(line) && (line[end] != '"' || end+1 < len(line) && line[end+1] == '"') {
				if line[end] == '"' {
					end++
				}
				end++
			}
			cell = line[1:min(end, len(line))]
			line = line[min(end+1, len(line)):]
		}
		i := bytes.IndexByte(line, sep)
		if i < 0 {
			return append(cells, string(append(cell[:len(cell):len(cell)], line[:min(len(line), 512)]...)))
		}
		cells = append(cells, string(append(cell[:len(cell):len(cell)], line[:min(i, 512)]...)))
		line = line[i+1:]
	}
	return cells
}

// plain reports whether cells could be the names of columns.
func plain(cols []string) bool {
	for _, c := range cols {
		if len(c) == 0 || len(c) > maxName || strings.ContainsAny(c, "(){};=<>") || strings.Count(c, " ") > 3 {
			return false
		}
	}
	return true
}

// yaml recognises a body by its top-level keys.
func (f file) yaml() (kind, summary string, ok bool) {
	const least = 4
	y := f.sampled().outlineYAML()
	if y.keys < 1 || y.keys+y.items < least || y.lines > 60*(y.keys+y.items) || y.broken {
		return "", "", false
	}
	kind, summary = f.namedYAML()
	return kind, summary, true
}

func (f file) namedYAML() (kind, summary string) { return f.describeYAML(f.outlineYAML()) }

// yamlOutline is what stands at the left margin of YAML.
type yamlOutline struct {
	names, members    names // top-level keys; keys of a top-level list's items
	keys, items, docs int
	lines             int  // lines that speak for it or not; others weigh more
	broken            bool // a tab indents, or a document has a key twice
}

func (f file) outlineYAML() (y yamlOutline) {
	const otherWeight = 9 // lines
	document := map[string]bool{}
	eachLine(f.body, func(line []byte) bool {
		if len(line) == 0 || line[0] == '#' || line[0] == '%' {
			return true
		}
		y.lines++
		switch {
		case bytes.HasPrefix(line, []byte("---")):
			if y.docs == 0 || y.keys+y.items > 0 {
				y.docs++
			}
			clear(document)
		case bytes.HasPrefix(line, []byte("- ")):
			y.items++
			y.members.add(yamlKey(bytes.TrimLeft(line[2:], " ")))
		case bytes.HasPrefix(line, []byte("  ")):
			if y.items > 0 && y.keys == 0 {
				y.members.add(yamlKey(line[2:]))
			}
		case line[0] == '\t':
			y.broken = true
		case line[0] == ' ' || string(line) == "-":
		default:
			if k := yamlKey(line); k != "" {
				y.keys++
				y.names.add(k)
				y.broken = y.broken || document[k]
				if len(document) < remembered {
					document[k] = true
				}
			} else {
				y.lines += otherWeight - 1
			}
		}
		return true
	})
	return y
}

func (f file) describeYAML(y yamlOutline) (kind, summary string) {
	prefix := "YAML, " + f.lines()
	if y.docs > 1 {
		prefix += ", " + plural(y.docs, "document")
	}
	switch {
	case y.names.count() > 0:
		return "yaml", y.names.after(prefix + ", keys: ")
	case y.members.count() > 0:
		return "yaml", y.members.after(prefix + ", list of " + plural(y.items, "item") + " with keys: ")
	case y.items > 0:
		return "yaml", prefix + ", list of " + plural(y.items, "item")
	}
	return "yaml", f.opening("YAML")
}

func yamlKey(line []byte) string {
	i := bytes.IndexByte(line, ':')
	if i <= 0 || i > maxName || i+1 < len(line) && line[i+1] != ' ' {
		return ""
	}
	k := bytes.Trim(line[:i], `"'`)
	for _, c := range k {
		if !isIdent(c) && c != '-' && c != '.' && c != '/' {
			return ""
		}
	}
	return string(k)
}

// toml recognises a body by its tables and assignments.
func (f file) toml() (kind, summary string, ok bool) {
	const least = 3 // lines
	t := f.sampled().outlineTOML()
	if t.good < least || t.good*3 < t.lines || !t.tables {
		return "", "", false
	}
	kind, summary = f.namedTOML()
	return kind, summary, true
}

func (f file) namedTOML() (kind, summary string) { return f.describeTOML(f.outlineTOML()) }

// tomlOutline has the names of tables and of the keys before the first one.
type tomlOutline struct {
	names       names
	tables      bool
	good, lines int // lines that are a table's or a key's; all
}

func (f file) outlineTOML() (t tomlOutline) {
	eachLine(f.body, func(line []byte) bool {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			return true
		}
		t.lines++
		switch i := bytes.IndexByte(line, '='); {
		case line[0] == '[' && line[len(line)-1] == ']' && i < 0:
			t.good++
			t.tables = true
			t.names.add(strings.Trim(string(line[:min(len(line), 512)]), "[] "))
		case i > 0 && isTomlKey(bytes.TrimSpace(line[:i])):
			t.good++
			if !t.tables {
				t.names.add(string(bytes.TrimSpace(line[:i])))
			}
		}
		return true
	})
	return t
}

func (f file) describeTOML(t tomlOutline) (kind, summary string) {
	if t.names.count() == 0 {
		return "toml", f.opening("TOML")
	}
	return "toml", t.names.after("TOML, " + f.lines() + ", tables and keys: ")
}

func isTomlKey(k []byte) bool {
	for _, c := range k {
		if !isIdent(c) && strings.IndexByte(`-."' `, c) < 0 {
			return false
		}
	}
	return len(k) > 0 && len(k) <= 4*maxName
}

// sql recognises a body by its statements.
func (f file) sql() (kind, summary string, ok bool) {
	const least = 2 // statements
	q := f.sampled().outlineSQL()
	if q.found < least {
		return "", "", false
	}
	kind, summary = f.namedSQL()
	return kind, summary, true
}

func (f file) namedSQL() (kind, summary string) { return f.describeSQL(f.outlineSQL()) }

// sqlOutline has what is created and what rows go into.
type sqlOutline struct {
	created, filled names
	inserts, found  int // insert statements; statements of every kind
}

func (f file) outlineSQL() (q sqlOutline) {
	eachLine(f.body, func(line []byte) bool {
		line = bytes.TrimLeft(line, " \t")
		if len(line) < 7 || strings.IndexByte("CcIiAaSsUuDd", line[0]) < 0 {
			return true
		}
		w := strings.Fields(string(line[:min(len(line), 160)]))
		switch strings.ToUpper(w[0]) {
		case "CREATE":
			if name := createdName(w[1:]); name != "" {
				q.created.add(name)
				q.found++
			}
		case "INSERT":
			if len(w) > 2 && strings.EqualFold(w[1], "INTO") {
				q.inserts++
				q.found++
				q.filled.add(sqlName(w[2]))
			}
		case "ALTER", "DROP":
			if len(w) > 2 && strings.EqualFold(w[1], "TABLE") {
				q.found++
			}
		case "SELECT", "DELETE":
			if containsFold(w, "FROM") {
				q.found++
			}
		case "UPDATE":
			if containsFold(w, "SET") {
				q.found++
			}
		}
		return true
	})
	return q
}

func (f file) describeSQL(q sqlOutline) (kind, summary string) {
	prefix := "SQL, " + f.lines()
	if q.inserts > 0 {
		prefix += q.filled.after(", " + plural(q.inserts, "insert") + " into ")
	}
	switch {
	case q.created.count() > 0:
		return "sql", q.created.after(prefix + ", creates: ")
	case q.inserts > 0:
		return "sql", prefix
	}
	return "sql", f.opening("SQL")
}

func containsFold(words []string, word string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
}

// createdName reads "TABLE IF NOT EXISTS orders (" as "orders".
func createdName(w []string) string {
	kind := ""
	for _, s := range w {
		switch u := strings.ToUpper(s); u {
		case "OR", "REPLACE", "TEMP", "TEMPORARY", "UNIQUE", "IF", "NOT", "EXISTS", "MATERIALIZED", "UNLOGGED", "CONCURRENTLY":
		case "TABLE", "VIEW", "INDEX", "FUNCTION", "PROCEDURE", "TRIGGER", "TYPE", "SCHEMA", "SEQUENCE", "DATABASE", "EXTENSION":
			kind = strings.ToLower(u)
		default:
			if kind == "" {
				return ""
			}
			if kind == "table" {
				return sqlName(s)
			}
			return kind + " " + sqlName(s)
		}
	}
	return ""
}

func sqlName(s string) string {
	if i := strings.IndexByte(s, '('); i >= 0 {
		s = s[:i]
	}
	return strings.Trim(s, "`\"[];,")
}
