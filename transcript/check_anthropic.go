package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Rules of Anthropic's Messages API (docs.anthropic.com/en/api/messages). The
// API joins consecutive messages of one role itself; here they are an error,
// since a part that moves between messages would move the cache's prefix.

type anthropicMsg struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

type anthropicBlock struct {
	Type      string           `json:"type"`
	Text      *string          `json:"text"`
	Thinking  *string          `json:"thinking"`
	Signature *string          `json:"signature"`
	Data      *string          `json:"data"`
	ID        *string          `json:"id"`
	Name      *string          `json:"name"`
	Input     json.RawMessage  `json:"input"`
	ToolUseID *string          `json:"tool_use_id"`
	Content   []anthropicBlock `json:"content"`
	IsError   bool             `json:"is_error"`
	Title     *string          `json:"title"`
	Cache     json.RawMessage  `json:"cache_control"` // a caller may add it
	Source    *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
	} `json:"source"`
}

func checkAnthropic(e Encoded) error {
	if e.System != nil {
		var blocks []anthropicBlock
		if err := strict(e.System, &blocks); err != nil {
			return fmt.Errorf("system: %w", err)
		}
		if len(blocks) == 0 {
			return errors.New("system is empty")
		}
		for _, b := range blocks {
			if b.Type != "text" || b.Text == nil || !hasText(*b.Text) {
				return errors.New("system holds something but text")
			}
		}
	}
	if len(e.Messages) == 0 {
		return errNoMessages
	}
	var open []string
	for i, raw := range e.Messages {
		var m anthropicMsg
		err := strict(raw, &m)
		want := "user"
		if i%2 == 1 {
			want = "assistant"
		}
		switch {
		case err != nil:
		case m.Role != want:
			err = fmt.Errorf("role %.40q where %s is due", m.Role, want)
		case len(m.Content) == 0:
			err = errors.New("it has no content")
		case m.Role == "user":
			err = m.checkUser(open)
			open = nil
		default:
			open, err = m.checkAssistant()
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

// checkUser wants the results of the open calls first, in call order.
func (m anthropicMsg) checkUser(open []string) error {
	for i, b := range m.Content {
		err := error(nil)
		switch {
		case b.Type == "tool_result" && b.ToolUseID == nil:
			err = errors.New("a result without its call's id")
		case b.Type == "tool_result" && len(open) == 0:
			err = fmt.Errorf("result %q follows no call, or stands behind other parts", *b.ToolUseID)
		case b.Type == "tool_result" && *b.ToolUseID != open[0]:
			err = fmt.Errorf("result %q where %q is due", *b.ToolUseID, open[0])
		case b.Type == "tool_result":
			err = b.checkResult()
			open = open[1:]
		case len(open) > 0:
			err = fmt.Errorf("a part before the result of call %q", open[0])
		default:
			err = b.checkShown()
		}
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("call %q has no result", open[0])
	}
	return nil
}

func (b anthropicBlock) checkResult() error {
	if len(b.Content) == 0 {
		return errors.New("a result without content")
	}
	for _, c := range b.Content {
		if b.IsError && c.Type != "text" {
			return fmt.Errorf("an error that holds %.40q", c.Type)
		}
		if err := c.checkShown(); err != nil {
			return err
		}
	}
	return nil
}

// checkShown accepts what anybody but the assistant may show.
func (b anthropicBlock) checkShown() error {
	switch b.Type {
	case "text":
		if b.Text == nil || !hasText(*b.Text) {
			return errEmptyText
		}
		return nil
	case "image", "document":
	default:
		return fmt.Errorf("type %.40q is not allowed here", b.Type)
	}
	if b.Source == nil {
		return fmt.Errorf("%s without source", b.Type)
	}
	switch s := b.Source; {
	case s.Type == "url":
		return checkURL(s.URL)
	case s.Type == "text" && b.Type == "document":
		if s.MediaType != "text/plain" || !hasText(s.Data) {
			return errEmptyText
		}
		return nil
	case s.Type == "base64":
		err := checkImageType(s.MediaType)
		if b.Type == "document" {
			if err = nil; s.MediaType != "application/pdf" {
				err = fmt.Errorf("media type %q", s.MediaType)
			}
		}
		if err != nil {
			return err
		}
		return checkBase64(s.Data)
	}
	return fmt.Errorf("source type %.40q", b.Source.Type)
}

func (m anthropicMsg) checkAssistant() (open []string, err error) {
	seen := map[string]bool{}
	for i, b := range m.Content {
		switch b.Type {
		case "text":
			err = b.checkShown()
		case "thinking":
			if b.Thinking == nil || b.Signature == nil || *b.Signature == "" {
				err = errors.New("thinking without signature")
			}
		case "redacted_thinking":
			if b.Data == nil || *b.Data == "" {
				err = errors.New("redacted thinking without data")
			}
		case "tool_use":
			if err = b.checkCall(seen); err == nil {
				open = append(open, *b.ID)
			}
		default:
			err = fmt.Errorf("type %.40q is not allowed here", b.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", i, err)
		}
	}
	if last := m.Content[len(m.Content)-1].Type; last == "thinking" || last == "redacted_thinking" {
		return nil, errors.New("reasoning is the last part")
	}
	return open, nil
}

func (b anthropicBlock) checkCall(seen map[string]bool) error {
	switch {
	case b.ID == nil || !anthropicIDPattern.MatchString(*b.ID):
		return errors.New("a call whose id is not of the form [a-zA-Z0-9_-]{1,64}")
	case seen[*b.ID]:
		return fmt.Errorf("two calls %q", *b.ID)
	case b.Name == nil || !namePattern.MatchString(*b.Name):
		return fmt.Errorf("the name of call %q", *b.ID)
	}
	seen[*b.ID] = true
	var input map[string]json.RawMessage
	if err := json.Unmarshal(b.Input, &input); err != nil || input == nil {
		return fmt.Errorf("the input of call %q is not an object", *b.ID)
	}
	return nil
}
