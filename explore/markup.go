package explore

import (
	"bytes"
	"strconv"
	"strings"
)

// markup recognises XML and HTML by their first tag, under the name of
// another family only where they declare themselves.
func (f file) markup() (kind, summary string, ok bool) {
	b := bytes.TrimSpace(f.body)
	if len(b) < 4 || b[0] != '<' {
		return "", "", false
	}
	low := bytes.ToLower(b[:min(len(b), 512)])
	declared := bytes.HasPrefix(low, []byte("<?xml"))
	open := f.hint == "" || f.hint == "xml" || f.hint == "html" || strings.HasPrefix(f.hint, "json")
	switch {
	case bytes.HasPrefix(low, []byte("<!doctype html")) || open && bytes.HasPrefix(low, []byte("<html")):
		return "html", f.html(), true
	case !declared && !open:
		return "", "", false
	}
	t := outline(b)
	if t.root == "html" && f.hint == "html" {
		return "html", f.html(), true
	}
	if t.root == "" || !declared && (!t.closed || t.stray) {
		return "", "", false // a tag of a template, of prose, of JSX
	}
	return "xml", f.xml(t), true
}

// namedMarkup believes the name of a body with any tag.
func (f file) namedMarkup() (kind, summary string, ok bool) {
	t := outline(f.body)
	switch {
	case t.root == "":
		return "", "", false
	case f.hint == "html":
		return "html", f.html(), true
	}
	return "xml", f.xml(t), true
}

func (f file) xml(t tree) string {
	s := "XML, " + f.lines() + ", root " + clip(t.root, maxName)
	if t.children.count() == 0 {
		return s
	}
	for i, c := range t.children.list {
		if n := t.counts[c]; n > 1 {
			t.children.list[i] = c + " ×" + strconv.Itoa(n)
		}
	}
	return t.children.after(s + ", children: ")
}

// tree is what an outline keeps of a document.
type tree struct {
	root     string
	children names // of the root
	counts   map[string]int
	closed   bool // the root has its end
	stray    bool // text after the root
}

// outline follows the tags of a document without checking their names.
func outline(b []byte) tree {
	t := tree{counts: map[string]int{}}
	depth := 0
	for i := 0; i < len(b); {
		lt := bytes.IndexByte(b[i:], '<')
		if lt < 0 {
			t.stray = t.stray || t.closed && len(bytes.TrimSpace(b[i:])) > 0
			break
		}
		t.stray = t.stray || t.closed && len(bytes.TrimSpace(b[i:i+lt])) > 0
		i += lt
		if n, ok := skipMarkup(b[i:]); ok {
			i += n
			continue
		}
		end := tagEnd(b[i:])
		if end < 0 {
			break
		}
		tag := b[i+1 : i+end]
		i += end + 1
		if len(tag) > 0 && tag[0] == '/' {
			depth--
			t.closed = t.closed || depth == 0
			continue
		}
		name := tagName(tag)
		if name == "" {
			continue
		}
		switch depth {
		case 0:
			t.stray = t.stray || t.root != ""
			t.root = name
		case 1:
			name = clip(name, maxName)
			t.children.add(name)
			if len(t.counts) < 1000 || t.counts[name] > 0 {
				t.counts[name]++
			}
		}
		if tag[len(tag)-1] != '/' {
			depth++
		} else if depth == 0 {
			t.closed = true
		}
	}
	return t
}

// skipMarkup steps over comments, declarations, instructions and CDATA.
func skipMarkup(b []byte) (n int, ok bool) {
	for _, p := range []struct{ open, end string }{{"<!--", "-->"}, {"<![CDATA[", "]]>"}, {"<?", "?>"}, {"<!", ">"}} {
		if bytes.HasPrefix(b, []byte(p.open)) {
			if e := bytes.Index(b, []byte(p.end)); e >= 0 {
				return e + len(p.end), true
			}
			return len(b), true
		}
	}
	return 0, false
}

// tagEnd returns the index of the ">" of a tag, past quoted attributes.
func tagEnd(b []byte) int {
	quote := byte(0)
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			return i
		}
	}
	return -1
}

func tagName(tag []byte) string {
	i := 0
	for i < len(tag) && (isIdent(tag[i]) || tag[i] == ':' || tag[i] == '-' || tag[i] == '.') {
		i++
	}
	return string(tag[:min(i, 4*maxName)])
}

const mostHeadings = 1000 // beyond it they are not read

// html names the title and the headings.
func (f file) html() string {
	var ns names
	title := ""
	for rest := f.body; ; {
		i := bytes.IndexByte(rest, '<')
		if i < 0 || i+4 > len(rest) {
			break
		}
		rest = rest[i+1:]
		switch c := rest[0]; {
		case (c == 't' || c == 'T') && title == "" && bytes.EqualFold(rest[:min(5, len(rest))], []byte("title")):
			title = innerText(rest)
		case ns.count() >= mostHeadings:
		case (c == 'h' || c == 'H') && rest[1] >= '1' && rest[1] <= '3' && (rest[2] == '>' || rest[2] == ' '):
			ns.add(innerText(rest))
		}
	}
	s := "HTML, " + f.lines()
	if title != "" {
		s += `, title "` + clip(title, 60) + `"`
	}
	if ns.count() == 0 {
		return s + ", " + size(len(f.body))
	}
	return ns.after(s + ", headings: ")
}

// innerText returns the text of an element up to its end tag, without tags.
func innerText(b []byte) string {
	const most = 1024
	b = b[:min(len(b), most)]
	_, b, ok := bytes.Cut(b, []byte{'>'})
	if !ok {
		return ""
	}
	var out strings.Builder
	for len(b) > 0 {
		i := bytes.IndexByte(b, '<')
		if i < 0 {
			out.Write(b)
			break
		}
		out.Write(b[:i])
		b = b[i:]
		end := bytes.IndexByte(b, '>')
		if end < 0 || len(b) > 2 && b[1] == '/' && (b[2] == 'h' || b[2] == 't' || b[2] == 'H' || b[2] == 'T') {
			break
		}
		b = b[end+1:]
	}
	return strings.TrimSpace(flat(out.String()))
}
