package explore

import (
	"bytes"
	"strings"
)

// language is a family of code. decl names the declaration a line makes at the
// top level, "" for none; strong lines are evidence although they declare
// nothing worth a name (imports, package clauses).
type language struct {
	kind, title string
	exts        string // separated by spaces
	decl        func(line []byte) string
	// split names a declaration that takes two lines, nil for none.
	split  func(before, line []byte) string
	strong []string // prefixes of lines
	// sure is a number of lines of evidence that convinces without a name's hint.
	sure int
	// intro is the prefix of a line worth quoting: a package clause, a shebang.
	intro string
}

// languages in order of how little their evidence is mistaken for another's.
var languages = []language{
	{kind: "go", title: "Go", exts: "go", decl: goDecl, strong: []string{"package ", "import (", "import \""}, sure: 2, intro: "package "},
	{kind: "rust", title: "Rust", exts: "rs", decl: rustDecl, strong: []string{"use ", "#[", "extern crate "}, sure: 2},
	{kind: "java", title: "Java", exts: "java", decl: javaDecl, strong: []string{"import java", "import org.", "import com.", "import static ", "package "}, sure: 2, intro: "package "},
	{kind: "cpp", title: "C++", exts: "cc cpp cxx hpp hh hxx", decl: cppDecl, split: cSplit, strong: []string{"#include ", "using namespace ", "using ", "#pragma once"}, sure: 3},
	{kind: "c", title: "C", exts: "c h", decl: cDecl, split: cSplit, strong: []string{"#include ", "#ifndef ", "#define ", "#ifdef "}, sure: 3},
	{kind: "typescript", title: "TypeScript", exts: "ts tsx mts cts", decl: tsDecl, strong: []string{"import {", "import type ", "import * as ", "export * from", "export {"}, sure: 2},
	{kind: "javascript", title: "JavaScript", exts: "js jsx mjs cjs", decl: jsDecl, strong: []string{"import ", "export {", "export * from", "'use strict'", "\"use strict\"", "module.exports"}, sure: 2},
	{kind: "python", title: "Python", exts: "py pyi pyw", decl: pyDecl, strong: []string{"import ", "from ", "#!/usr/bin/env python", "#!/usr/bin/python", "@", "if __name__"}, sure: 2},
	{kind: "shell", title: "shell", exts: "sh bash zsh ksh", decl: shellDecl, strong: []string{"#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env bash", "#!/usr/bin/env sh", "#!/usr/bin/env zsh", "#!/bin/zsh", "set -e", "set -u", "fi", "done", "esac", "export "}, sure: 2, intro: "#!"},
}

// language is the one of the hint, nil where it names none. A header is C or
// C++ by its lines.
func (f file) language() *language {
	for i := range languages {
		if l := &languages[i]; l.kind == f.hint {
			if l.kind == "c" && f.isCPP() {
				return &languages[i-1]
			}
			return l
		}
	}
	return nil
}

// isCPP looks for lines that no C has.
func (f file) isCPP() (found bool) {
	eachLine(f.sample(), func(line []byte) bool {
		for _, p := range []string{"class ", "namespace ", "template", "using ", "public:", "private:"} {
			found = found || bytes.HasPrefix(line, []byte(p)) && !bytes.HasSuffix(line, []byte("."))
		}
		return !found
	})
	return found
}

// interpreter reads a shebang: the language it names, nil for a foreign one.
func (f file) interpreter() (l *language, known bool) {
	line, _, _ := bytes.Cut(f.sample(), []byte{'\n'})
	rest, ok := bytes.CutPrefix(line, []byte("#!"))
	if !ok || bytes.HasPrefix(rest, []byte("[")) { // Rust's inner attribute
		return nil, false
	}
	for _, w := range strings.Fields(string(rest)) {
		program := strings.TrimRight(w[strings.LastIndexByte(w, '/')+1:], "0123456789.")
		if program == "env" || strings.HasPrefix(w, "-") || strings.Contains(w, "=") {
			continue
		}
		kind := map[string]string{
			"sh": "shell", "bash": "shell", "dash": "shell", "zsh": "shell", "ksh": "shell",
			"python": "python", "pypy": "python", "node": "javascript", "deno": "typescript", "bun": "typescript",
		}[program]
		for i := range languages {
			if languages[i].kind == kind {
				return &languages[i], true
			}
		}
		break
	}
	return nil, true
}

// startsForeign recognises families without rules by how they begin.
func (f file) startsForeign() bool {
	b := bytes.TrimLeft(f.sample(), " \t\r\n")
	for _, p := range []string{"<?php", "<?=", "diff --git ", "Index: ", "From ", ".TH ", ".\\\"", "'\\\"", "%!PS", "\\documentclass", "-----BEGIN "} {
		if bytes.HasPrefix(b, []byte(p)) {
			return true
		}
	}
	return (bytes.HasPrefix(b, []byte("--- ")) || bytes.Contains(b, []byte("\n--- "))) && bytes.Contains(b, []byte("\n+++ ")) && bytes.Contains(b, []byte("\n@@ "))
}

// evidence counts the lines of the sample that speak for a language, and all
// lines that say something.
func (f file) evidence(l *language) (n, lines int) {
	var before []byte
	eachLine(f.sample(), func(line []byte) bool {
		if len(line) > 0 {
			lines++
			if l.name(before, line) != "" || l.isStrong(line) {
				n++
			}
		}
		before = line
		return true
	})
	return n, lines
}

// name is what a line declares at the top level, with the line before it.
func (l *language) name(before, line []byte) string {
	if len(line) == 0 {
		return ""
	}
	name := l.decl(line)
	if name == "" && l.split != nil && len(before) > 0 {
		name = l.split(before, line)
	}
	return name
}

func (l *language) isStrong(line []byte) bool {
	for _, p := range l.strong {
		if len(line) >= len(p) && string(line[:len(p)]) == p {
			return true
		}
	}
	return false
}

// likeliest describes the language with most evidence, where one convinces.
func (f file) likeliest() (kind, summary string, ok bool) {
	var best *language
	most := 0
	for i := range languages {
		l := &languages[i]
		n, lines := f.evidence(l)
		if n < l.sure || n*50 < lines || !f.telltale(l) {
			continue
		}
		if n > most {
			best, most = l, n
		}
	}
	if best == nil {
		return "", "", false
	}
	kind, summary = f.code(best)
	return kind, summary, true
}

// telltales are strings without which a body is not taken for a language by
// its lines alone: English prose imports, declares and exports too.
var telltales = map[string][]string{
	"go":         {"\npackage ", "func "},
	"rust":       {"\nfn ", "\npub ", "\nimpl", "\n#["},
	"java":       {"\nimport java", "\npackage ", "public class ", "public final class ", "public abstract class ", "public interface ", "public enum ", "@Override"},
	"cpp":        {"::", "\nclass ", "\ntemplate"},
	"c":          {"#include", "#define"},
	"typescript": {": string", ": number", ": boolean", "interface ", "import type", ": void", "export type"},
	"javascript": {"=> ", "function", "const ", "require(", ");\n"},
	"python":     {":\n", "import "},
	"shell":      {"#!", "\nfi\n", "\ndone\n", "() {"},
}

func (f file) telltale(l *language) bool {
	s := f.sample()
	for _, t := range telltales[l.kind] {
		if bytes.Contains(s, []byte(t)) || strings.HasPrefix(t, "\n") && bytes.HasPrefix(s, []byte(t[1:])) {
			return true
		}
	}
	return false
}

// code names the declarations of a body.
func (f file) code(l *language) (kind, summary string) {
	var ns names
	var before []byte
	intro := ""
	eachLine(f.body, func(line []byte) bool {
		if l.intro != "" && intro == "" && bytes.HasPrefix(line, []byte(l.intro)) {
			intro = ", " + clip(strings.TrimRight(string(line[:min(len(line), 4*maxName)]), "; "), maxName)
		}
		ns.add(l.name(before, line))
		before = line
		return true
	})
	prefix := l.title + ", " + f.lines() + intro
	if ns.count() == 0 {
		return l.kind, prefix + ", " + size(len(f.body)) + ", no top-level names"
	}
	return l.kind, ns.after(prefix + ": ")
}

// words is a cursor over the start of a line.
type words struct{ b []byte }

// take steps over a keyword and the space behind it.
func (w *words) take(keyword string) bool {
	if len(w.b) <= len(keyword) || string(w.b[:len(keyword)]) != keyword {
		return false
	}
	if c := w.b[len(keyword)]; c != ' ' && c != '\t' {
		return false
	}
	w.b = bytes.TrimLeft(w.b[len(keyword):], " \t")
	return true
}

// any steps over any run of the keywords.
func (w *words) any(keywords ...string) {
	for again := true; again; {
		again = false
		for _, k := range keywords {
			if w.take(k) {
				again = true
			}
		}
	}
}

// ident returns the identifier at the cursor and steps over it.
func (w *words) ident() string {
	i := 0
	for i < len(w.b) && isIdent(w.b[i]) {
		i++
	}
	s := string(w.b[:min(i, 4*maxName)])
	w.b = w.b[i:]
	return s
}

// starts reports whether the rest begins with one of the bytes.
func (w *words) starts(set string) bool {
	rest := bytes.TrimLeft(w.b, " \t")
	return len(rest) > 0 && strings.IndexByte(set, rest[0]) >= 0
}

func isIdent(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c == '_' || c == '$' || c >= 0x80
}

// indented lines are not at the top level.
func indented(line []byte) bool { return line[0] == ' ' || line[0] == '\t' }

// call marks a function's name.
func call(name string) string {
	if name == "" {
		return ""
	}
	return name + "()"
}
