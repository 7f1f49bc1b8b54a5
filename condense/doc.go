// Package condense decides what a session's context needs next and makes
// summaries: the planner, the escalation ladder, the prompts, and the port
// through which a summariser is called.
//
// It is pure: no engine, no clock, no model provider. It may import events,
// session, tokens, window; never an adapter or a service.
package condense
