// Package rank orders turns by how well they answer a question asked in plain
// words. It holds the rules only: how a text becomes terms, what each term of
// a question weighs, and how scores of single turns are put together. An index
// delivers how often a term stands in a document and how long the document is.
//
// The rules and their gains were measured on questions about conversations
// with known evidence; `lcm eval recall` measures them again.
//
// The package is pure: no engine, no clock, no I/O.
package rank
