package extract

import "strings"

// dataTags open text that a harness put into a user's turn.
var dataTags = []string{
	"<system-reminder", "<local-command", "<bash-", "<returncode", "<output", "<tool_result", "<function_results", "<observation",
	"<task-notification", "<environment_context", "<stdout", "<stderr",
}

// commandTag recognises a user's turn in a harness's markup: authored is true
// for a command the user typed (body says which), false for data.
func commandTag(text string) (authored bool, body string, ok bool) {
	t := strings.TrimSpace(text)
	if !strings.HasPrefix(t, "<") {
		return false, "", false
	}
	if strings.HasPrefix(t, "<command-") {
		name, _ := between(t, "<command-name>", "</command-name>")
		args, _ := between(t, "<command-args>", "</command-args>")
		return true, strings.TrimSpace(name + " " + args), true
	}
	for _, tag := range dataTags {
		if strings.HasPrefix(t, tag) {
			return false, "", true
		}
	}
	return false, "", false
}

func between(s, open, end string) (string, bool) {
	_, s, ok := strings.Cut(s, open)
	if !ok {
		return "", false
	}
	return strings.TrimSuffix(firstCut(s, end), "\n"), true
}

func firstCut(s, sep string) string { a, _, _ := strings.Cut(s, sep); return a }
