package extract

import "strings"

// judge sorts a sentence of the assistant's by what it says.
func judge(s string) (section, float64) {
	l := lower(s)
	narrates := false
	if i, _, ok := narrating.find(l); ok && i <= 0 {
		narrates = true
	}
	scale := 1.0
	if strings.HasPrefix(s, "|") || len(l.words) < 3 && isASCII(s) {
		scale = 0.4
	}
	if filler.in(l) {
		scale *= 0.3
	}
	if strings.HasSuffix(s, ":") {
		scale *= 0.4 // an announcement
	}
	switch {
	case strings.HasPrefix(s, "[ ]"), pending.in(l) && !narrates:
		return secOpen, scale
	case strings.HasPrefix(s, "[x]"):
		return secDone, 0.6
	case deciding.in(l):
		if narrates {
			scale *= 0.6
		}
		return secDecisions, scale
	case doing.in(l) && !narrates:
		return secDone, scale
	case narrates:
		return secNotes, 0 // says what it is about to do: the calls say what it did
	case failing.in(l):
		return secNotes, 1.4 * scale
	}
	return secNotes, scale
}

// looks are shell commands that only look.
var looks = wordSet(`ls cat pwd head tail grep rg find wc echo sed awk less stat tree which cd file du df date env sleep true diff sort`)

var changes = wordSet(`mkdir rm mv cp touch tee ln chmod install apply push commit checkout merge rebase reset revert tag
	deploy add publish restore cherry-pick stash kill`)

var changingVerbs = []string{
	"write", "edit", "create", "update", "delete", "remove", "book", "cancel", "commit", "move", "rename", "apply", "patch", "insert",
	"send", "post", "put", "save", "modify", "replace", "deploy", "transfer", "exchange", "return", "set",
}

// judgeCall weighs a call: what changes things is done, the rest is looking.
func judgeCall(name, main string) (section, float64) {
	n := strings.ToLower(name)
	switch {
	case n == "bash" || n == "shell" || n == "exec" || strings.Contains(n, "command") || n == "exec_command" || n == "run":
		return judgeShell(main)
	case n == "think" || n == "calculate":
		return secTools, 0.3
	case isLook(n):
		return secTools, 0.4
	}
	for _, v := range changingVerbs {
		if strings.HasPrefix(n, v) || strings.Contains(n, "_"+v) {
			return secDone, 1
		}
	}
	return secTools, 0.8
}

func isLook(n string) bool {
	for _, v := range []string{"read", "cat", "view", "grep", "glob", "search", "list", "ls", "find", "get_", "fetch"} {
		if strings.HasPrefix(n, v) {
			return true
		}
	}
	return false
}

func judgeShell(cmd string) (section, float64) {
	looking, weight := true, 0.9
	if writesFile(cmd) {
		return secDone, weight
	}
	for part := range strings.FieldsFuncSeq(cmd, func(r rune) bool { return r == '&' || r == ';' || r == '|' }) {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		if !looks[words[0]] {
			looking = false
		}
		if words[0] == "sed" && len(words) > 1 && words[1] == "-i" || changes[words[0]] || len(words) > 1 && changes[words[1]] {
			return secDone, weight
		}
	}
	if looking {
		return secTools, 0.2
	}
	return secTools, weight
}

// writesFile reports a redirection into a file.
func writesFile(cmd string) bool {
	_, after, ok := strings.Cut(cmd, "> ")
	return ok && !strings.HasPrefix(after, "/dev/null") && (strings.Contains(cmd, "<<") || strings.HasPrefix(cmd, "echo") || strings.HasPrefix(cmd, "cat >"))
}

func looksOnly(c call) bool {
	_, w := judgeCall(c.name, c.main)
	return w < 0.5
}
