package transcript

import (
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strconv"
	"strings"

	"lcm/events"
)

// imageHeadBytes is how much of an image is looked at for its size: a JPEG may
// carry a long preview in front of it.
const imageHeadBytes = 256 << 10

// imageBlock reads the dialects of an image part: Anthropic's source object,
// OpenAI's image_url (an object or a string), and data beside its type.
func imageBlock(f part) events.Block {
	b := events.Block{Type: events.BlockImage, MediaType: text(f.mediaType), Data: text(f.data), URL: text(f.url)}
	switch {
	case isObject(f.source):
		readSource(&b, f.source)
	case isString(f.image):
		setURL(&b, text(f.image))
	case isObject(f.image):
		setURL(&b, text(member(f.image, "url")))
	}
	b.Width, b.Height = number(f.width), number(f.height)
	if b.Data != "" && b.Width == 0 {
		b.Width, b.Height = imageSize(b.Data)
	}
	return b
}

func documentBlock(p []byte, f part) events.Block {
	b := events.Block{
		Type: events.BlockDocument, Name: text(f.title), Text: text(f.text),
		MediaType: text(f.mediaType), Data: text(f.data), URL: text(f.url),
	}
	if b.Name == "" {
		b.Name = text(f.name)
	}
	switch {
	case isObject(f.source):
		readSource(&b, f.source)
		if strings.HasPrefix(b.MediaType, "text/") && b.Data != "" && text(member(f.source, "type")) == "text" {
			b.Text, b.Data = b.Data, ""
		}
	case isObject(f.file):
		p = f.file
		fallthrough
	default:
		if s := text(member(p, "file_data")); s != "" {
			setURL(&b, s)
		} else if s := text(member(p, "file_url")); s != "" {
			b.URL = s
		}
		if s := text(member(p, "filename")); s != "" {
			b.Name = s
		}
	}
	return b
}

func readSource(b *events.Block, src []byte) {
	fields(src, func(key, val []byte) {
		switch string(key) {
		case "media_type":
			b.MediaType = text(val)
		case "data":
			b.Data = text(val)
		case "url":
			b.URL = text(val)
		}
	})
}

// setURL takes a data URL apart and keeps any other.
func setURL(b *events.Block, url string) {
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		if media, data, ok := strings.Cut(rest, ";base64,"); ok {
			b.MediaType, b.Data = media, data
			return
		}
	}
	b.URL = url
}

func number(v []byte) int {
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 0 || n > 1<<20 {
		return 0
	}
	return n
}

// mediaType tells an image's type from its base64, "" = none of the four that
// providers take.
func mediaType(data string) string {
	for _, m := range []struct{ prefix, media string }{
		{"iVBORw0KGg", "image/png"},
		{"/9j/", "image/jpeg"},
		{"R0lGOD", "image/gif"},
		{"UklGR", "image/webp"},
	} {
		if strings.HasPrefix(data, m.prefix) {
			return m.media
		}
	}
	return ""
}

// imageSize reads width and height from the head of a base64 image, 0 and 0
// where they cannot be told.
func imageSize(data string) (w, h int) {
	r := base64.NewDecoder(base64.StdEncoding, strings.NewReader(data[:min(len(data), imageHeadBytes)]))
	var cfg image.Config
	var err error
	switch mediaType(data) {
	case "image/png":
		cfg, err = png.DecodeConfig(r)
	case "image/jpeg":
		cfg, err = jpeg.DecodeConfig(r)
	case "image/gif":
		cfg, err = gif.DecodeConfig(r)
	case "image/webp":
		return webpSize(r)
	}
	if err != nil || cfg.Width < 0 || cfg.Height < 0 || cfg.Width > 1<<20 || cfg.Height > 1<<20 {
		return 0, 0
	}
	return cfg.Width, cfg.Height
}

// webpSize reads the three kinds of WebP header (RFC 9649, section 2).
func webpSize(r io.Reader) (w, h int) {
	var b [30]byte
	if _, err := io.ReadFull(r, b[:]); err != nil || string(b[8:12]) != "WEBP" {
		return 0, 0
	}
	u24 := func(p []byte) int { return int(p[0]) | int(p[1])<<8 | int(p[2])<<16 }
	switch string(b[12:16]) {
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(b[26:])) & 0x3fff, int(binary.LittleEndian.Uint16(b[28:])) & 0x3fff
	case "VP8L":
		v := binary.LittleEndian.Uint32(b[21:])
		return int(v&0x3fff) + 1, int(v>>14&0x3fff) + 1
	case "VP8X":
		return u24(b[24:]) + 1, u24(b[27:]) + 1
	}
	return 0, 0
}
