// Package extract is the offline summariser: it makes summaries without a
// model, by typed rules, and is what runs where no key is configured.
//
// What a line is decides what is kept of it: the user's words near verbatim,
// standing instructions before all else, the assistant's decisions with their
// why, calls as digests (name, key argument, outcome), errors as quotations of
// the tool that reported them. What remains of the budget lists verbatim
// anchors (paths, identifiers, URLs, codes, numbers with units) by the entry
// they stand in, so that grep and expand have something to hold on to.
//
// A summary's structure cannot be forged by what it quotes: every item is one
// line that starts with "- ", so a heading at the start of a line is ours.
//
// It is pure and deterministic: the same request gives the same bytes. It may
// import condense (the port), tokens and events; never a clock, a store or a
// provider.
package extract
