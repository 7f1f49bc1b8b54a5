// Package engine holds tests only: those of the pure engine as a whole. One
// state machine drives session, condense, window and transcript together, over
// an in-memory log, and holds every state against every rule (machine_test.go;
// `make soak` for a million steps). faults_test.go says which test of the
// module holds which fault kind that peers of this system were reported to have.
package engine
