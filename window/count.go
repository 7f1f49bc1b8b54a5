package window

import (
	"lcm/events"
	"lcm/tokens"
)

// What providers add around text. OpenAI documents three tokens a message and
// one for its role; the ids and JSON around a call or a result vary and are
// covered by a constant, so that ids themselves are never counted.
const (
	MessageTokens = 4  // one message
	callTokens    = 8  // around a tool call's name and input
	resultTokens  = 10 // around a tool result: a message of its own for some providers
	mediaTokens   = 8  // around an image or a document
)

// An image takes width*height/750 tokens and providers scale larger ones down
// to about 1,600 (Anthropic's documentation); one of unknown size counts as large.
const (
	imageMin     = 85
	imageDefault = 1_600
	imagePixels  = 750
)

// A document given as bytes costs by the page; the engine does not parse it
// and takes 50 KB for a page of 1,600 tokens, 100 pages at most.
const (
	pageBytes = 50_000
	pageMax   = 100
)

// base64Run is the length from which unbroken base64 inside an unknown block
// is taken for a media payload, not for text.
const base64Run = 256

// TurnTokens counts the neutral rendering of a turn: a constant per message
// and what stands in it. It is 0 exactly for a turn of which nothing can be
// rendered. Base64 payloads and signatures are never counted as text.
func TurnTokens(t *events.TurnAppended) int {
	main, results := decompose(t)
	n := 0
	if len(main) > 0 {
		n = MessageTokens
	}
	for i := range main {
		n += blockTokens(&main[i])
	}
	for i := range results {
		n += blockTokens(&results[i])
	}
	return n
}

func blockTokens(b *events.Block) int {
	switch b.Type {
	case events.BlockText, events.BlockThinking:
		return tokens.Count(b.Text)
	case events.BlockToolUse:
		return callTokens + tokens.Count(b.Name) + tokens.Count(b.Input)
	case events.BlockToolResult:
		n := resultTokens + tokens.Count(b.Text)
		for i := range b.Content {
			n += blockTokens(&b.Content[i])
		}
		return n
	case events.BlockImage:
		return mediaTokens + imageTokens(b.Width, b.Height)
	case events.BlockDocument:
		if b.Text != "" {
			return mediaTokens + tokens.Count(b.Text)
		}
		return mediaTokens + imageDefault*min(max(1, len(b.Data)*3/4/pageBytes), pageMax)
	default:
		return mediaTokens + tokens.Count(withoutPayload(b.Raw))
	}
}

func imageTokens(width, height int) int {
	if width <= 0 || height <= 0 {
		return imageDefault
	}
	w, h := min(width, 1<<20), min(height, 1<<20)
	return min(max(w*h/imagePixels, imageMin), imageDefault)
}

// withoutPayload leaves long runs of base64 out of the JSON text of a block
// nobody knows.
func withoutPayload(raw string) string {
	if len(raw) < base64Run {
		return raw
	}
	var out []byte
	for i := 0; i < len(raw); {
		j := i
		for j < len(raw) && isBase64(raw[j]) {
			j++
		}
		if j-i < base64Run {
			out = append(out, raw[i:j]...)
		}
		if j < len(raw) {
			out = append(out, raw[j])
			j++
		}
		i = j
	}
	return string(out)
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '+' || c == '/' || c == '=' || c == '-' || c == '_'
}
