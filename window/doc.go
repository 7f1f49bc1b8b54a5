// Package window renders a session's active context: what the model sees. It
// holds the regimes, the fresh tail, the tiers of the pointer block, the
// clipping of what is too large, and the view for an emergency.
//
// Every size here comes from one counter, and ContextTokens knows from metadata
// alone what Render will count: trigger, gate, budget and report agree.
//
// It is pure: no engine, no clock, no model. It may import events, session,
// tokens and transcript; never an adapter or a service.
package window

// Renderer is the version of the renderer, recorded in cuts. It changes when
// the same view would give other bytes.
const Renderer = "window-1"
