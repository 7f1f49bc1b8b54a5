package explore

import (
	"path"
	"strings"
)

// hints are the families that a file's name tells, with the extensions and,
// beginning with "=", the whole names that tell them. Families without rules
// of their own are foreign: such a body is text, whatever it resembles.
var hints = []struct{ family, names string }{
	{"json", "json jsonc json5 ipynb geojson har webmanifest tfstate map =.eslintrc =.babelrc"},
	{"jsonl", "jsonl ndjson"},
	{"yaml", "yaml yml =.clang-format =.clang-tidy"},
	{"toml", "toml =cargo.lock =poetry.lock =uv.lock =pipfile"},
	{"xml", "xml xsd xsl xslt svg plist csproj vcxproj wsdl rss atom xaml resx kml gpx"},
	{"html", "html htm xhtml"},
	{"csv", "csv"},
	{"tsv", "tsv tab"},
	{"markdown", "md markdown mdx mkd"},
	{"rst", "rst"},
	{"log", "log"},
	{"sql", "sql ddl"},
	{"shell", "=.bashrc =.bash_profile =.bash_aliases =.bash_logout =.profile =.zshrc =.zprofile =.envrc"},
	{foreign, "pl pm pod t php phtml rb erb gemspec lua tcl r jl scala sbt kt kts groovy gradle swift cs fs vb m mm d zig nim dart " +
		"hs ml mli elm ex exs erl hrl clj cljs lisp el scm rkt f f90 f95 for pas ada adb asm s vhd v sv awk sed vim bat cmd ps1 psm1 psd1 " +
		"css scss sass less styl vue svelte astro hbs ejs jsp asp aspx twig haml pug proto thrift graphql gql tf tfvars hcl nix " +
		"conf cfg cnf ini properties env desktop service socket timer mount rules list repo mk mak am ac m4 cmake ninja bazel bzl gn " +
		"diff patch tex bib sty cls texi texinfo roff man adoc asciidoc org pem crt key pub asc po pot dtd lock sum mod " +
		"=makefile =gnumakefile =dockerfile =containerfile =jenkinsfile =gemfile =rakefile =vagrantfile =procfile =cmakelists.txt " +
		"=requirements.txt =robots.txt =codeowners =build =workspace =kconfig =.gitignore =.gitattributes =.gitmodules =.gitconfig " +
		"=.dockerignore =.npmrc =.editorconfig =.vimrc =.inputrc"},
}

const foreign = "foreign"

// wrappers are extensions that say nothing of what is in the file.
const wrappers = " in tmpl tpl j2 jinja jinja2 example sample dist orig bak old default "

// hint returns the family that a name tells, "" where it tells none.
func hint(name string) string {
	base := strings.ToLower(path.Base(strings.ReplaceAll(name, `\`, "/")))
	for {
		if h := familyOf(base); h != "" {
			return h
		}
		ext := path.Ext(base)
		if len(ext) < 2 || !strings.Contains(wrappers, " "+ext[1:]+" ") && !isDigit(ext[1]) { // app.log.1
			return ""
		}
		base = strings.TrimSuffix(base, ext)
	}
}

func familyOf(base string) string {
	whole, ext := " ="+base+" ", " "+strings.TrimPrefix(path.Ext(base), ".")+" "
	for _, h := range hints {
		if names := " " + h.names + " "; strings.Contains(names, whole) || len(ext) > 2 && strings.Contains(names, ext) {
			return h.family
		}
	}
	for i := range languages {
		if names := " " + languages[i].exts + " "; len(ext) > 2 && strings.Contains(names, ext) {
			return languages[i].kind
		}
	}
	return ""
}
