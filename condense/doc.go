// Package condense decides what a session's context needs next and makes
// summaries: the planner, the escalation ladder, the prompts, and the port
// through which a summariser is called.
//
//	Plan          view → the leaves, groups or cut that are due (plan.go);
//	              chunks of turns (chunk.go), the pointer block (block.go),
//	              swaps and clips (cut.go), thresholds (sizes.go)
//	PlanRepairs   the redoing of level-3 nodes after an outage (repair.go)
//	Ladder        a job → a node, whatever the summariser answers (ladder.go,
//	              clean.go, truncate.go)
//	LinesOf       turns → a summariser's input (lines.go, clip.go, prompt.go)
//
// The planner keeps no state. Its caller carries out what is due, waits until
// the view shows it, and plans again until nothing is due.
//
// It is pure: no engine, no clock, no model provider. It may import events,
// session, tokens, window; never an adapter or a service.
package condense
