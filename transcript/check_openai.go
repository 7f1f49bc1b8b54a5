package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Rules of OpenAI's chat completions API
// (platform.openai.com/docs/api-reference/chat/create), and of the servers that
// speak it where they are stricter.

type openAIMsg struct {
	Role             string          `json:"role"`
	Name             *string         `json:"name"`
	Content          json.RawMessage `json:"content"`
	ToolCallID       *string         `json:"tool_call_id"`
	ToolCalls        []openAIToolUse `json:"tool_calls"`
	ReasoningContent json.RawMessage `json:"reasoning_content"`
	Reasoning        json.RawMessage `json:"reasoning"`
	ReasoningDetails json.RawMessage `json:"reasoning_details"`
	ThinkingBlocks   json.RawMessage `json:"thinking_blocks"`
}

type openAIToolUse struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string  `json:"name"`
		Arguments *string `json:"arguments"`
	} `json:"function"`
}

func checkOpenAI(e Encoded) error {
	if e.System != nil {
		return errors.New("system stands beside the messages")
	}
	if len(e.Messages) == 0 {
		return errNoMessages
	}
	var open []string // calls without a result, in call order
	for i, raw := range e.Messages {
		var m openAIMsg
		err := strict(raw, &m)
		if err == nil {
			open, err = m.check(open)
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("call %q has no result", open[0])
	}
	return nil
}

// check returns the calls that are open behind the message.
func (m openAIMsg) check(open []string) ([]string, error) {
	if m.Role == "tool" {
		switch {
		case m.ToolCallID == nil || m.ToolCalls != nil || m.Name != nil:
			return nil, errors.New("a tool message has tool_call_id and content")
		case len(open) == 0:
			return nil, fmt.Errorf("result %q follows no call", *m.ToolCallID)
		case *m.ToolCallID != open[0]:
			return nil, fmt.Errorf("result %q where %q is due", *m.ToolCallID, open[0])
		}
		return open[1:], checkOpenAIContent(m.Content, "text")
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("a %s message before the result of call %q", m.Role, open[0])
	}
	if m.ToolCallID != nil {
		return nil, fmt.Errorf("a %s message with tool_call_id", m.Role)
	}
	if m.Name != nil && !namePattern.MatchString(*m.Name) {
		return nil, fmt.Errorf("name %.80q", *m.Name)
	}
	if m.Role != "assistant" {
		if m.ToolCalls != nil || m.ReasoningContent != nil || m.Reasoning != nil || m.ReasoningDetails != nil || m.ThinkingBlocks != nil {
			return nil, fmt.Errorf("a %s message with an assistant's fields", m.Role)
		}
		switch m.Role {
		case "system", "developer":
			return nil, checkOpenAIContent(m.Content, "text")
		case "user":
			return nil, checkOpenAIContent(m.Content, "text image_url file")
		}
		return nil, fmt.Errorf("role %.40q", m.Role)
	}
	if m.ToolCalls != nil && len(m.ToolCalls) == 0 {
		return nil, errors.New("tool_calls is empty")
	}
	if len(m.Content) > 0 && string(m.Content) != "null" || m.ToolCalls == nil { // absent and null are one beside calls
		if err := checkOpenAIContent(m.Content, "text"); err != nil {
			return nil, err
		}
	}
	return m.checkCalls()
}

func (m openAIMsg) checkCalls() (open []string, err error) {
	seen := map[string]bool{}
	for _, c := range m.ToolCalls {
		switch {
		case c.ID == "" || len(c.ID) > 40:
			return nil, fmt.Errorf("call id %.80q", c.ID)
		case seen[c.ID]:
			return nil, fmt.Errorf("two calls %q", c.ID)
		case c.Type != "function":
			return nil, fmt.Errorf("call type %.40q", c.Type)
		case !namePattern.MatchString(c.Function.Name):
			return nil, fmt.Errorf("function name %.80q", c.Function.Name)
		case c.Function.Arguments == nil || *c.Function.Arguments == "":
			return nil, fmt.Errorf("call %q without arguments", c.ID)
		}
		seen[c.ID] = true
		open = append(open, c.ID)
	}
	return open, nil
}

// UnmarshalJSON refuses a call without its fields, but not its vendor's.
func (c *openAIToolUse) UnmarshalJSON(b []byte) error {
	type lax openAIToolUse
	return json.Unmarshal(b, (*lax)(c))
}

func checkOpenAIContent(raw json.RawMessage, types string) error {
	var s string
	if json.Unmarshal(raw, &s) == nil && len(raw) > 0 && raw[0] == '"' {
		if !hasText(s) {
			return errEmptyText
		}
		return nil
	}
	var parts []struct {
		Type     string  `json:"type"`
		Text     *string `json:"text"`
		ImageURL *struct {
			URL string `json:"url"`
		} `json:"image_url"`
		File *struct {
			Filename string `json:"filename"`
			FileData string `json:"file_data"`
		} `json:"file"`
	}
	if len(raw) == 0 || strict(raw, &parts) != nil || len(parts) == 0 {
		return errors.New("the content is neither text nor parts")
	}
	for i, p := range parts {
		err := error(nil)
		switch {
		case !strings.Contains(" "+types+" ", " "+p.Type+" "):
			err = fmt.Errorf("type %.40q is not allowed here", p.Type)
		case p.Type == "text" && (p.Text == nil || !hasText(*p.Text)):
			err = errEmptyText
		case p.Type == "image_url" && p.ImageURL == nil, p.Type == "file" && p.File == nil:
			err = errors.New("it has no body")
		case p.Type == "image_url":
			err = checkDataURL(p.ImageURL.URL)
		case p.Type == "file":
			data, ok := strings.CutPrefix(p.File.FileData, "data:application/pdf;base64,")
			if err = checkBase64(data); !ok || p.File.Filename == "" {
				err = errors.New("a file has a name and the data of a PDF")
			}
		}
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
	}
	return nil
}

func checkDataURL(url string) error {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return checkURL(url)
	}
	media, data, _ := strings.Cut(rest, ";base64,")
	if err := checkImageType(media); err != nil {
		return err
	}
	return checkBase64(data)
}
