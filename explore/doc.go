// Package explore describes large files by rule: what a body turns out to be,
// what it holds in one line, and how it begins. No parser and no model; a
// family without a rule reports its size and first line rather than guessing.
//
// It is pure and deterministic, and safe for any bytes: bodies are what tools
// returned, cut off, wrapped in line numbers, or not what their name says.
// It must never import an engine, a store or another package of this module.
package explore
