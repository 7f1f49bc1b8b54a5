package explore

import (
	"bytes"
	"strings"
)

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

// cDecl names what a line declares: a type, a function with or without its
// body, a pointer to a function.
func cDecl(line []byte) string {
	if indented(line) || bytes.IndexByte([]byte("#/*{@-<`|>.0123456789"), line[0]) >= 0 {
		return ""
	}
	if line[0] == '}' { // the end of a typedef: } name;
		w := words{bytes.TrimLeft(line[1:], " *")}
		if name := w.ident(); string(w.b) == ";" {
			return name
		}
		return ""
	}
	w := words{line}
	w.any("static", "extern", "const", "inline")
	typedef := w.take("typedef")
	w.any("const", "volatile")
	switch {
	case w.take("struct"), w.take("enum"), w.take("union"):
		w.any("class")
		if name := w.ident(); name != "" && (len(w.b) == 0 || bytes.HasSuffix(line, []byte("{"))) && bytes.IndexByte(line, '(') < 0 {
			return name
		}
	}
	switch {
	case typedef && bytes.IndexByte(line, '(') < 0:
		rest, ok := bytes.CutSuffix(line, []byte(";"))
		if !ok {
			return ""
		}
		return lastIdent(rest)
	case !declares(line):
		return ""
	case typedef:
		return strings.TrimSuffix(cFunction(w.b, inTypedef), "()")
	}
	return cFunction(line, untyped)
}

// cSplit names a function whose type stands alone on the line before.
func cSplit(before, line []byte) string {
	const longest = 80 // bytes of a type
	if indented(before) || indented(line) || len(before) > longest || !isIdent(line[0]) || !isIdent(before[0]) || isDigit(before[0]) || !declares(line) {
		return ""
	}
	for _, c := range before {
		if !isIdent(c) && c != ' ' && c != '\t' && c != '*' {
			return ""
		}
	}
	w := words{before}
	if cKeywords[w.ident()] {
		return ""
	}
	return cFunction(line, typed)
}

// declares reports whether a line ends like one that declares a function: its
// parameters, their beginning, or its body follow or end there. A call ends in
// ";" as well, but has no type in front.
func declares(line []byte) bool {
	switch last := line[len(line)-1]; last {
	case '{', ')', ',':
		return true
	case ';':
		return bytes.HasSuffix(line, []byte(");"))
	}
	return false
}

// What is known in front of a function.
type front int

const (
	untyped front = iota
	typed         // its type
	inTypedef
)

// cFunction names the function or the pointer to one that is declared.
func cFunction(b []byte, known front) string {
	const mostMacros = 4
	for range mostMacros {
		open := bytes.IndexByte(b, '(')
		if open <= 0 {
			return ""
		}
		before, name := b[:open], nameBefore(b, "=;\"'")
		if name == "" || cKeywords[name] || !isType(before) {
			return ""
		}
		alone := len(bytes.TrimSpace(before)) == len(name)
		end := closing(b[open:])
		rest := bytes.TrimLeft(b[open+end:], " \t")
		if end > 0 && (alone || strings.HasPrefix(name, "__")) && len(rest) > 0 && isIdent(rest[0]) {
			b, known = rest, max(known, typed) // a macro around the type, an attribute before it
			continue
		}
		if end > 0 && (len(rest) > 0 && rest[0] == '(' || len(rest) == 0 && known == inTypedef || b[open+1] == '*') {
			return pointerName(b[open+1 : open+end-1])
		}
		if alone && known == untyped {
			return "" // a macro's or function's call
		}
		return call(name)
	}
	return ""
}

// isType accepts what stands in front of a function's parameters.
func isType(b []byte) bool {
	for i, c := range b {
		switch {
		case isIdent(c) || strings.IndexByte(" \t*&<>,~[]", c) >= 0:
		case c == ':' && (i > 0 && b[i-1] == ':' || i+1 < len(b) && b[i+1] == ':'):
		default:
			return false
		}
	}
	return true
}

// closing returns the length of a group of parentheses, 0 where it does not
// end on the line.
func closing(b []byte) int {
	depth := 0
	for i, c := range b {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// pointerName reads "JNICALL *name" as name and "*name(int)" as name().
func pointerName(b []byte) string {
	_, b, ok := bytes.Cut(b, []byte{'*'})
	if !ok {
		return ""
	}
	end := bytes.IndexAny(b, "([")
	if end < 0 {
		return lastIdent(b)
	}
	name := lastIdent(b[:end])
	if b[end] == '(' {
		name = call(name)
	}
	return name
}

// lastIdent returns the identifier at the end of b.
func lastIdent(b []byte) string {
	from := len(b)
	for from > 0 && isIdent(b[from-1]) {
		from--
	}
	if from == len(b) || isDigit(b[from]) {
		return ""
	}
	return string(b[from:min(len(b), from+4*maxName)])
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
