package explore

import "bytes"

func goDecl(line []byte) string {
	if indented(line) {
		return ""
	}
	w := words{line}
	switch {
	case w.take("func"):
		if len(w.b) > 0 && w.b[0] == '(' { // a method: (s *Store) Get(
			end := bytes.IndexByte(w.b, ')')
			if end < 0 {
				return ""
			}
			recv := bytes.TrimLeft(w.b[1:end], " ")
			if i := bytes.LastIndexByte(recv, ' '); i >= 0 {
				recv = recv[i+1:]
			}
			t := words{bytes.TrimLeft(recv, "*")}
			owner := t.ident()
			w.b = bytes.TrimLeft(w.b[end+1:], " ")
			if name := w.ident(); name != "" && owner != "" && w.starts("([") {
				return owner + "." + name + "()"
			}
			return ""
		}
		if name := w.ident(); name != "" && w.starts("([") {
			return call(name)
		}
	case w.take("type"):
		if name := w.ident(); name != "" && len(w.b) > 0 {
			return name
		}
	case w.take("var"), w.take("const"):
		if name := w.ident(); name != "" && (w.starts("=") || len(w.b) > 1) {
			return name
		}
	}
	return ""
}

func rustDecl(line []byte) string {
	if indented(line) {
		return ""
	}
	w := words{line}
	if bytes.HasPrefix(w.b, []byte("pub(")) {
		if end := bytes.IndexByte(w.b, ')'); end > 0 {
			w.b = bytes.TrimLeft(w.b[end+1:], " ")
		}
	}
	w.any("pub", "async", "unsafe", "default")
	if w.take("const") || w.take("static") {
		if w.take("fn") {
			return call(w.ident())
		}
		w.any("mut")
		if name := w.ident(); w.starts(":") {
			return name
		}
		return ""
	}
	switch {
	case w.take("fn"):
		if name := w.ident(); w.starts("(<") {
			return call(name)
		}
	case w.take("struct"), w.take("enum"), w.take("trait"), w.take("union"):
		if name := w.ident(); w.starts("{<(;:") || len(w.b) == 0 || bytes.HasPrefix(w.b, []byte(" where")) {
			return name
		}
	case w.take("mod"):
		if name := w.ident(); name != "" && w.starts("{;") {
			return "mod " + name
		}
	case w.take("type"):
		if name := w.ident(); w.starts("=<") {
			return name
		}
	case w.take("macro_rules!"):
		return w.ident() + "!"
	}
	return ""
}

var javaModifiers = []string{"public", "protected", "private", "static", "final", "abstract", "sealed", "non-sealed", "strictfp", "default", "synchronized"}

func javaDecl(line []byte) string {
	const deepest = 4 // bytes of indentation: members of a top-level class
	body := bytes.TrimLeft(line, " \t")
	depth := len(line) - len(body)
	if depth > deepest || len(body) == 0 {
		return ""
	}
	w := words{body}
	w.any(javaModifiers...)
	modified := len(w.b) < len(body)
	switch {
	case w.take("class"), w.take("interface"), w.take("enum"), w.take("@interface"):
		if name := w.ident(); w.starts("{<") || bytes.HasPrefix(w.b, []byte(" extends")) || bytes.HasPrefix(w.b, []byte(" implements")) || len(w.b) == 0 && modified {
			return name
		}
		return ""
	case w.take("record"):
		if name := w.ident(); w.starts("(<") {
			return name
		}
		return ""
	}
	if !modified || depth == 0 {
		return ""
	}
	return call(nameBefore(w.b, "=;"))
}

// nameBefore returns the identifier in front of the first "(", unless one of
// the stop bytes comes earlier.
func nameBefore(b []byte, stops string) string {
	open := bytes.IndexByte(b, '(')
	if open <= 0 || bytes.ContainsAny(b[:open], stops) {
		return ""
	}
	end := open
	for end > 0 && b[end-1] == ' ' {
		end--
	}
	from := end
	for from > 0 && (isIdent(b[from-1]) || b[from-1] == ':' || b[from-1] == '~') {
		from--
	}
	name := bytes.TrimLeft(b[from:end], ":")
	if len(name) == 0 || isDigit(name[0]) {
		return ""
	}
	return string(name[:min(len(name), 4*maxName)])
}

var cKeywords = map[string]bool{
	"if": true, "for": true, "while": true, "switch": true, "return": true, "sizeof": true, "else": true, "do": true,
	"defined": true, "catch": true, "assert": true, "static_assert": true, "elif": true,
}

func cDecl(line []byte) string {
	if indented(line) || bytes.IndexByte([]byte("#/*{}@-<`|>.0123456789"), line[0]) >= 0 {
		return ""
	}
	w := words{line}
	w.any("typedef", "static", "extern", "const", "inline")
	switch {
	case w.take("struct"), w.take("enum"), w.take("union"):
		if name := w.ident(); name != "" && (len(w.b) == 0 || bytes.HasSuffix(line, []byte("{"))) && bytes.IndexByte(line, '(') < 0 {
			return name
		}
	}
	// A definition ends in "{", ")" or ","; a call or declaration in ";".
	last := line[len(line)-1]
	if last != '{' && last != ')' && last != ',' {
		return ""
	}
	name := nameBefore(line, "=;\"'")
	open := bytes.IndexByte(line, '(')
	if name == "" || cKeywords[name] || open == len(name) {
		return "" // a macro's or function's call has no type in front
	}
	return call(name)
}

func cppDecl(line []byte) string {
	if indented(line) {
		return ""
	}
	w := words{line}
	switch {
	case w.take("class"), w.take("namespace"):
		name := w.ident()
		for bytes.HasPrefix(w.b, []byte("::")) {
			w.b = w.b[2:]
			name += "::" + w.ident()
		}
		if name != "" && (w.starts("{:") || len(w.b) == 0 || bytes.HasPrefix(w.b, []byte(" final"))) {
			return name
		}
		return ""
	case bytes.HasPrefix(line, []byte("template")):
		return ""
	}
	return cDecl(line)
}

func jsDecl(line []byte) string {
	if indented(line) {
		return ""
	}
	w := words{line}
	w.any("export", "default", "async", "declare", "abstract")
	exported := len(w.b) < len(line)
	switch {
	case w.take("function"), w.take("function*"):
		w.b = bytes.TrimLeft(w.b, "* ")
		if name := w.ident(); w.starts("(<") {
			return call(name)
		}
	case w.take("class"):
		if name := w.ident(); w.starts("{<") || bytes.HasPrefix(w.b, []byte(" extends")) || bytes.HasPrefix(w.b, []byte(" implements")) {
			return name
		}
	case w.take("const"), w.take("let"), w.take("var"):
		name := w.ident()
		if w.starts("=:") {
			if bytes.Contains(w.b, []byte("=>")) || bytes.Contains(w.b, []byte("function")) {
				return call(name)
			}
			return name
		}
	default:
		if exported {
			return ""
		}
		if rest, ok := bytes.CutPrefix(line, []byte("exports.")); ok {
			w = words{rest}
			if name := w.ident(); w.starts("=") {
				return name
			}
		}
	}
	return ""
}

func tsDecl(line []byte) string {
	if indented(line) {
		return ""
	}
	w := words{line}
	w.any("export", "default", "declare", "const")
	switch {
	case w.take("interface"), w.take("enum"), w.take("namespace"), w.take("module"):
		if name := w.ident(); w.starts("{<") || bytes.HasPrefix(w.b, []byte(" extends")) {
			return name
		}
		return ""
	case w.take("type"):
		if name := w.ident(); w.starts("=<") {
			return name
		}
		return ""
	}
	return jsDecl(line)
}

func pyDecl(line []byte) string {
	if indented(line) {
		return ""
	}
	w := words{line}
	w.any("async")
	switch {
	case w.take("def"):
		if name := w.ident(); w.starts("(") {
			return call(name)
		}
	case w.take("class"):
		if name := w.ident(); w.starts("(:") {
			return name
		}
	default:
		name := w.ident()
		if name != "" && bytes.HasPrefix(bytes.TrimLeft(w.b, " "), []byte("= ")) && isConstant(name) {
			return name
		}
	}
	return ""
}

// isConstant accepts NAMES_LIKE_THIS.
func isConstant(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'A' || c > 'Z') && c != '_' && !isDigit(c) {
			return false
		}
	}
	return len(s) >= 3
}

func shellDecl(line []byte) string {
	if indented(line) {
		return ""
	}
	w := words{line}
	if w.take("function") {
		i := bytes.IndexAny(w.b, " ({")
		if i < 0 {
			i = len(w.b)
		}
		return call(string(w.b[:min(i, 4*maxName)]))
	}
	i := 0
	for i < len(line) && (isIdent(line[i]) || line[i] == '-' || line[i] == ':') {
		i++
	}
	rest := bytes.TrimSpace(line[i:])
	if i > 0 && bytes.HasPrefix(rest, []byte("()")) && (len(rest) == 2 || rest[len(rest)-1] == '{' || rest[len(rest)-1] == '}') {
		return call(string(line[:min(i, 4*maxName)]))
	}
	return ""
}
