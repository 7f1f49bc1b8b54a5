package transcript

import (
	"encoding/json"
	"strings"
	"testing"
)

// encoded makes a context of messages, one a line.
func encoded(system, lines string) Encoded {
	e := Encoded{}
	if system != "" {
		e.System = json.RawMessage(system)
	}
	for _, l := range strings.Split(lines, "\n") {
		if l != "" {
			e.Messages = append(e.Messages, json.RawMessage(l))
		}
	}
	return e
}

func TestCheckOpenAI(t *testing.T) {
	const (
		user = `{"role":"user","content":"x"}`
		call = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		both = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		resA = `{"role":"tool","tool_call_id":"a","content":"r"}`
		resB = `{"role":"tool","tool_call_id":"b","content":"r"}`
	)
	lines := func(l ...string) string { return strings.Join(l, "\n") }
	for _, tc := range []struct{ name, messages, want string }{
		{"pairs", lines(user, call, resA), ""},
		{"parallel", lines(user, both, resA, resB), ""},
		{"vendor fields of a call", lines(user, strings.Replace(call, `"type"`, `"extra_content":{},"type"`, 1), resA), ""},
		{"image", lines(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]}`), ""},
		{"absent content beside calls", lines(user, strings.Replace(call, `"content":null,`, "", 1), resA), ""},
		{"ends with an assistant", lines(user, `{"role":"assistant","reasoning_content":"","content":"y"}`), ""},

		{"nothing", "", "there are no messages"},
		{"no result", lines(user, call), `call "a" has no result`},
		{"one result missing", lines(user, both, resA), `call "b" has no result`},
		{"results out of order", lines(user, both, resB, resA), `result "b" where "a" is due`},
		{"user before the result", lines(user, call, user, resA), `a user message before the result of call "a"`},
		{"result alone", lines(user, resA), `result "a" follows no call`},
		{"result twice", lines(user, call, resA, resA), `result "a" follows no call`},
		{"two calls of one id", lines(user, strings.ReplaceAll(both, `"b"`, `"a"`), resA, resA), `two calls "a"`},
		{"long id", lines(user, strings.ReplaceAll(call, `"a"`, `"`+strings.Repeat("a", 41)+`"`)), "call id"},
		{"name", lines(user, strings.Replace(call, `"f"`, `"f.g"`, 1)), "function name"},
		{"arguments are an object", lines(user, strings.Replace(call, `"{}"`, `{}`, 1)), "cannot unmarshal"},
		{"empty content", `{"role":"user","content":""}`, "the text is empty"},
		{"blank content", `{"role":"user","content":" \n"}`, "the text is empty"},
		{"no content", `{"role":"user"}`, "neither text nor parts"},
		{"no parts", `{"role":"user","content":[]}`, "neither text nor parts"},
		{"empty part", `{"role":"user","content":[{"type":"text","text":""}]}`, "the text is empty"},
		{"null without calls", `{"role":"assistant","content":null}`, "neither text nor parts"},
		{"empty calls", `{"role":"assistant","content":"x","tool_calls":[]}`, "tool_calls is empty"},
		{"image of an assistant", `{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"https://e.org"}}]}`, "not allowed here"},
		{"bitmap", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/bmp;base64,QUJD"}}]}`, "media type"},
		{"base64", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,*"}}]}`, "base64"},
		{"role", `{"role":"critic","content":"x"}`, `role "critic"`},
		{"field", `{"role":"user","content":"x","mood":1}`, "unknown field"},
		{"no object", `7`, "cannot unmarshal"},
	} {
		checkCase(t, OpenAI, tc.name, encoded("", tc.messages), tc.want)
	}
}

func TestCheckAnthropic(t *testing.T) {
	const (
		user = `{"role":"user","content":[{"type":"text","text":"x"}]}`
		said = `{"role":"assistant","content":[{"type":"text","text":"x"}]}`
		both = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]}`
		resA = `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"r"}]}`
		resB = `{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"r"}],"is_error":true}`
		text = `{"type":"text","text":"t"}`
	)
	lines := func(l ...string) string { return strings.Join(l, "\n") }
	msg := func(role string, parts ...string) string {
		return `{"role":"` + role + `","content":[` + strings.Join(parts, ",") + `]}`
	}
	for _, tc := range []struct{ name, system, messages, want string }{
		{"pairs", `[{"type":"text","text":"s"}]`, lines(user, both, msg("user", resA, resB, text)), ""},
		{"thinking", "", lines(user, msg("assistant", `{"type":"thinking","thinking":"","signature":"s"}`, text)), ""},

		{"nothing", "", "", "there are no messages"},
		{"assistant first", "", said, `role "assistant" where user is due`},
		{"two users", "", lines(user, user), `role "user" where assistant is due`},
		{"result first", "", msg("user", resA), `result "a" follows no call`},
		{"no result", "", lines(user, both), `call "a" has no result`},
		{"one result missing", "", lines(user, both, msg("user", resA)), `call "b" has no result`},
		{"results out of order", "", lines(user, both, msg("user", resB, resA)), `result "b" where "a" is due`},
		{"text before results", "", lines(user, both, msg("user", text, resA, resB)), `a part before the result of call "a"`},
		{"result too late", "", lines(user, both, msg("user", resA, resB), said, msg("user", resA)), `result "a" follows no call`},
		{"two calls of one id", "", lines(user, strings.ReplaceAll(both, `"b"`, `"a"`)), `two calls "a"`},
		{"id", "", lines(user, strings.ReplaceAll(both, `"b"`, `"b:c"`)), "a call whose id"},
		{"input is an array", "", lines(user, strings.Replace(both, `{}`, `[]`, 1)), "is not an object"},
		{"input is null", "", lines(user, strings.Replace(both, `{}`, `null`, 1)), "is not an object"},
		{"no content", "", `{"role":"user","content":[]}`, "it has no content"},
		{"empty text", "", msg("user", `{"type":"text","text":" "}`), "the text is empty"},
		{"unsigned thinking", "", lines(user, msg("assistant", `{"type":"thinking","thinking":"x","signature":""}`, text)), "without signature"},
		{"thinking last", "", lines(user, msg("assistant", text, `{"type":"thinking","thinking":"x","signature":"s"}`)), "reasoning is the last part"},
		{"image in an error", "", lines(user, both, msg("user", resA, `{"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]}`)), "an error that holds"},
		{"empty result", "", lines(user, both, msg("user", resA, `{"type":"tool_result","tool_use_id":"b","content":[]}`)), "a result without content"},
		{"bitmap", "", msg("user", `{"type":"image","source":{"type":"base64","media_type":"image/bmp","data":"QUJD"}}`), "media type"},
		{"image of an assistant", "", lines(user, msg("assistant", `{"type":"image","source":{"type":"url","url":"https://e.org"}}`)), "not allowed here"},
		{"system role", "", `{"role":"system","content":[{"type":"text","text":"x"}]}`, `role "system"`},
		{"empty system", `[]`, user, "system is empty"},
		{"blank system", `[{"type":"text","text":""}]`, user, "system holds something but text"},
	} {
		checkCase(t, Anthropic, tc.name, encoded(tc.system, tc.messages), tc.want)
	}
}

func TestCheckPlain(t *testing.T) {
	for _, tc := range []struct{ name, messages, want string }{
		{"fine", `{"role":"tool","content":"x"}`, ""},
		{"nothing", "", "there are no messages"},
		{"empty", `{"role":"user","content":""}`, "the text is empty"},
		{"no content", `{"role":"user"}`, "the text is empty"},
		{"parts", `{"role":"user","content":[]}`, "cannot unmarshal"},
		{"role", `{"role":"x","content":"x"}`, "its role"},
		{"more", `{"role":"user","content":"x","name":"n"}`, "unknown field"},
	} {
		checkCase(t, Plain, tc.name, encoded("", tc.messages), tc.want)
	}
}

func checkCase(t *testing.T, f Format, name string, e Encoded, want string) {
	t.Helper()
	err := Check(f, e)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}
