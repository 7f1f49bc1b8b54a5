// Package transcript reads the formats agents keep their conversations in and
// writes the formats providers accept.
//
// Reading turns foreign lines into turns of this project, each beside its
// verbatim source; what is not a turn is named as skipped, what is broken as
// rejected, and nothing is dropped in silence. Writing turns neutral messages
// into what an API accepts.
//
// It is pure: readers and writers in, values out. It may import events only.
//
// # Where to change what
//
// parse.go runs a source and read.go cuts it into records; a decoder makes
// items of them: claudecode.go, pi.go, codex.go, and chat.go for everything
// that is {role, content}. content.go reads the parts of a message, scan.go and
// quote.go JSON itself. exact.go decides whether a source has to be stored.
// encode_*.go write, check_*.go say what a provider would refuse.
//
// # The lcm format
//
// What lcm append reads: JSON Lines, a turn a line (an array of turns or
// {"messages": […]} is understood too).
//
//		{"id": "m1", "role": "user", "content": "…", "sender": "Ada", "time": "2026-04-01T09:30:00Z"}
//		{"id": "m2", "parent": "m1", "role": "assistant", "content": null, "tool_calls": […]}
//		{"role": "tool", "tool_call_id": "call_1", "name": "read", "content": "…"}
//
//	  - role: system, developer, user, assistant, tool. Required.
//	  - content: a string, or parts in the manner of OpenAI (text, image_url, file),
//	    of Anthropic (text, thinking, tool_use, tool_result, image, document), or as
//	    lcm show prints them. Required, but null is fine beside tool_calls. Parts of
//	    other types are kept raw.
//	  - id: the turn's id, unique in the session for ever; the same id again is the
//	    same turn. Without one an append is not idempotent.
//	  - parent: id of the turn this one follows; absent = the current leaf. A parent
//	    that is not the leaf moves it.
//	  - sender, or name: who wrote it, where several share a role. name of a tool
//	    message is the tool's.
//	  - time: RFC 3339, or seconds or milliseconds since 1970; the author's time.
//	  - tool_calls, tool_call_id, is_error: as in OpenAI's messages; arguments may
//	    be any string. reasoning_content and its kin are kept byte for byte.
//	  - injected: true for text the author did not write.
package transcript
