// Package session folds the events of one session into rows: entries, branches,
// the DAG of summaries, cuts. The fold is the one place that decides what an
// event means and whether it is accepted; every projection, live or rebuilt,
// embedded or split, runs through it.
//
// It is pure: it reads and writes rows through the small Rows port and knows
// nothing of what keeps them. It may import events and tokens only.
package session
