package explore

import (
	"bytes"
	"strings"
)

// table recognises columns: a separator that stands as often in every one of
// the first lines, at least least of them.
func (f file) table(least int) (kind, summary string, ok bool) {
	for _, sep := range []struct {
		c    byte
		kind string
	}{{'\t', "tsv"}, {',', "csv"}, {';', "csv"}} {
		cols, rows := columns(f.sample(), sep.c)
		if len(cols) < 2 || rows < least {
			continue
		}
		if least > 1 && (len(cols) < 3 && sep.c != '\t' || !plain(cols)) {
			continue // prose has commas, code has them too
		}
		var ns names
		for i, c := range cols {
			if c == "" {
				c = "column " + grouped(i+1)
			}
			ns.add(c)
		}
		n := countLines(f.body) - 1
		return sep.kind, ns.after(strings.ToUpper(sep.kind) + ", " + plural(n, "row") + ", " + plural(len(cols), "column") + ": "), true
	}
	return "", "", false
}

// columns reads the first line's cells and the number of the lines after the
// other that have as many, up to 20 lines.
func columns(b []byte, sep byte) (cols []string, rows int) {
	const looked = 20
	eachLine(b, func(line []byte) bool {
		if len(bytes.TrimSpace(line)) == 0 {
			return true
		}
		cells := split(line, sep)
		if rows == 0 {
			cols = cells
		} else if len(cells) != len(cols) {
			if bytes.IndexByte(line, '"') < 0 { // a quoted cell may hold a line's end
				rows = -1
			}
			return false
		}
		rows++
		return rows < looked
	})
	return cols, rows
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

// yaml names the top-level keys.
func (f file) yaml(least int) (kind, summary string, ok bool) {
	var ns names
	lines, keys, docs, items := 0, 0, 1, 0
	eachLine(f.body, func(line []byte) bool {
		if len(line) == 0 || line[0] == '#' {
			return true
		}
		lines++
		switch {
		case bytes.HasPrefix(line, []byte("---")):
			if keys+items > 0 {
				docs++
			}
		case line[0] == ' ' || line[0] == '\t':
		case bytes.HasPrefix(line, []byte("- ")):
			items++
		default:
			if k := yamlKey(line); k != "" {
				keys++
				ns.add(k)
			} else {
				lines += 8 // lines that are neither speak against it
			}
		}
		return true
	})
	if keys < 1 || keys+items < least || lines > 60*(keys+items) || least > 1 && ns.count()*4 < keys {
		return "", "", false
	}
	prefix := "YAML, " + f.lines()
	if docs > 1 {
		prefix += ", " + plural(docs, "document")
	}
	return "yaml", ns.after(prefix + ", keys: "), true
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

// toml names tables and the keys before the first one.
func (f file) toml(least int) (kind, summary string, ok bool) {
	var ns names
	lines, good, inTable := 0, 0, false
	eachLine(f.body, func(line []byte) bool {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			return true
		}
		lines++
		switch i := bytes.IndexByte(line, '='); {
		case line[0] == '[' && line[len(line)-1] == ']' && i < 0:
			good++
			inTable = true
			ns.add(strings.Trim(string(line[:min(len(line), 512)]), "[] "))
		case i > 0 && isTomlKey(bytes.TrimSpace(line[:i])):
			good++
			if !inTable {
				ns.add(string(bytes.TrimSpace(line[:i])))
			}
		}
		return true
	})
	if good < least || ns.count() == 0 || good*3 < lines || least > 1 && !inTable {
		return "", "", false
	}
	return "toml", ns.after("TOML, " + f.lines() + ", tables and keys: "), true
}

func isTomlKey(k []byte) bool {
	for _, c := range k {
		if !isIdent(c) && strings.IndexByte(`-."' `, c) < 0 {
			return false
		}
	}
	return len(k) > 0 && len(k) <= 4*maxName
}

// sql names what is created and what rows go into.
func (f file) sql(least int) (kind, summary string, ok bool) {
	var created, filled names
	found, rows := 0, 0
	eachLine(f.body, func(line []byte) bool {
		line = bytes.TrimLeft(line, " \t")
		if len(line) < 7 || strings.IndexByte("CcIiAaSsUuDd", line[0]) < 0 {
			return true
		}
		w := strings.Fields(string(line[:min(len(line), 160)]))
		switch strings.ToUpper(w[0]) {
		case "CREATE":
			if name := createdName(w[1:]); name != "" {
				created.add(name)
				found++
			}
		case "INSERT":
			if len(w) > 2 && strings.EqualFold(w[1], "INTO") {
				rows++
				found++
				filled.add(sqlName(w[2]))
			}
		case "ALTER", "DROP":
			if len(w) > 2 && strings.EqualFold(w[1], "TABLE") {
				found++
			}
		case "SELECT", "UPDATE", "DELETE":
			if bytes.IndexByte(line, ';') > 0 || f.ext == "sql" {
				found++
			}
		}
		return true
	})
	if found < least {
		return "", "", false
	}
	prefix := "SQL, " + f.lines()
	if rows > 0 {
		prefix += filled.after(", " + plural(rows, "insert") + " into ")
	}
	if created.count() == 0 {
		return "sql", prefix, true
	}
	return "sql", created.after(prefix + ", creates: "), true
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
