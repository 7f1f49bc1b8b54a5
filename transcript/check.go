package transcript

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Check reports the first rule of a provider that an encoded context breaks,
// nil if it would be accepted. It shares nothing with the encoders: it is what
// they are held to.
//
// A context may end on an assistant message; its caller says so (ends_with).
func Check(f Format, e Encoded) error {
	var err error
	switch f {
	case OpenAI:
		err = checkOpenAI(e)
	case Anthropic:
		err = checkAnthropic(e)
	case Plain:
		err = checkPlain(e)
	default:
		return fmt.Errorf("cannot check format %q", f)
	}
	if err != nil {
		return fmt.Errorf("not valid for %s: %w", f, err)
	}
	return nil
}

var (
	errNoMessages = errors.New("there are no messages")
	errEmptyText  = errors.New("the text is empty")

	namePattern        = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	anthropicIDPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// strict decodes b into v and refuses fields v does not have.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// hasText reports more than white space.
func hasText(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && !(r >= 0x1c && r <= 0x1f) })
}

func checkBase64(s string) error {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err == nil && len(b) == 0 {
		err = errors.New("no data")
	}
	return err
}

func checkURL(s string) error {
	if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
		return nil
	}
	return fmt.Errorf("URL %.60q is not http or https", s)
}

func checkImageType(media string) error {
	switch media {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return nil
	}
	return fmt.Errorf("media type %q", media)
}

func checkPlain(e Encoded) error {
	if e.System != nil {
		return errors.New("system stands beside the messages")
	}
	if len(e.Messages) == 0 {
		return errNoMessages
	}
	for i, raw := range e.Messages {
		var m struct{ Role, Content *string }
		if err := strict(raw, &m); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		switch {
		case m.Role == nil || !plainRoles[*m.Role]:
			return fmt.Errorf("message %d: its role", i)
		case m.Content == nil || !hasText(*m.Content):
			return fmt.Errorf("message %d: %w", i, errEmptyText)
		}
	}
	return nil
}

var plainRoles = map[string]bool{"system": true, "developer": true, "user": true, "assistant": true, "tool": true}
