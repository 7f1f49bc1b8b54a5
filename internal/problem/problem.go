// Package problem is the one table of error codes: what a caller is told, with
// which HTTP status, micro code and exit code, and what to do about it. It
// imports nothing of this module.
package problem

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
)

// Code names a kind of failure; it is stable and machine-readable.
type Code string

// The codes.
const (
	Invalid      Code = "invalid"      // the request is wrong
	Unauthorized Code = "unauthorized" // who are you
	Forbidden    Code = "forbidden"    // not allowed
	NotFound     Code = "not_found"
	Method       Code = "method"      // the path is there, under another method
	Conflict     Code = "conflict"    // the same id with other content
	TooLarge     Code = "too_large"   // above a stated maximum
	Stale        Code = "stale"       // the projection is behind its deadline
	Damaged      Code = "damaged"     // stored data fails its checks
	Unavailable  Code = "unavailable" // a part is not running: retry
	Limited      Code = "limited"     // rate or quota
	Internal     Code = "internal"    // a fault of ours
)

// Exit codes of the command line.
const (
	ExitOK       = 0
	ExitFailed   = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitDegraded = 4
	ExitDenied   = 5
)

type row struct {
	status, exit int
	hint         string
}

var table = map[Code]row{
	Invalid:      {http.StatusBadRequest, ExitUsage, ""},
	Unauthorized: {http.StatusUnauthorized, ExitDenied, "send a bearer token"},
	Forbidden:    {http.StatusForbidden, ExitDenied, "ask for a token with the scope that is named"},
	NotFound:     {http.StatusNotFound, ExitNotFound, ""},
	Method:       {http.StatusMethodNotAllowed, ExitUsage, ""},
	Conflict:     {http.StatusConflict, ExitFailed, "an id names one turn for ever: send the changed turn under a new id"},
	TooLarge:     {http.StatusRequestEntityTooLarge, ExitFailed, ""},
	Stale:        {http.StatusServiceUnavailable, ExitDegraded, "the projection is catching up: retry, or see `lcm status`"},
	Damaged:      {http.StatusInternalServerError, ExitDegraded, "run `lcm doctor`"},
	Unavailable:  {http.StatusServiceUnavailable, ExitFailed, "retry; see `lcm status`"},
	Limited:      {http.StatusTooManyRequests, ExitFailed, "slow down"},
	Internal:     {http.StatusInternalServerError, ExitFailed, "this is a fault of lcm: please report it"},
}

// Error is a failure with a code.
type Error struct {
	Code Code   `json:"code"`
	Text string `json:"detail"`         // what happened, naming the thing
	Hint string `json:"hint,omitempty"` // what to do about it
	err  error
}

func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Text + " (" + e.Hint + ")"
	}
	return e.Text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// Is makes errors.Is(err, problem.New(code, "")) match by code.
func (e *Error) Is(target error) bool {
	var t *Error
	return errors.As(target, &t) && t.Code == e.Code && t.Text == ""
}

// Status is the HTTP status of the error.
func (e *Error) Status() int { return table[e.Code].status }

// Exit is the exit code of the error.
func (e *Error) Exit() int { return table[e.Code].exit }

// New makes an error; the last %w operand, if any, is its cause.
func New(c Code, format string, a ...any) *Error {
	err := fmt.Errorf(format, a...)
	return &Error{Code: c, Text: err.Error(), Hint: table[c].hint, err: errors.Unwrap(err)}
}

// WithHint replaces the code's own hint.
func (e *Error) WithHint(format string, a ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, a...)
	return &c
}

// From finds the coded error in err; anything else is Internal, and an ended
// context is Stale.
func From(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		if err.Error() == e.Error() {
			return e
		}
		c := *e
		c.Text = err.Error()
		c.Hint = ""
		return &c
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: Stale, Text: err.Error(), Hint: table[Stale].hint, err: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: Unavailable, Text: err.Error(), err: err}
	case DiskFull(err):
		return &Error{Code: Unavailable, Text: err.Error(), Hint: "make room on the disk, then retry: nothing that was acknowledged is lost", err: err}
	}
	return &Error{Code: Internal, Text: err.Error(), Hint: table[Internal].hint, err: err}
}

// fullDisk are the errors of a disk that takes no more, or is read-only.
var fullDisk = [...]syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EFBIG}

// DiskFull reports whether err is one of a disk that takes no more, or is
// read-only.
func DiskFull(err error) bool {
	return slices.ContainsFunc(fullDisk[:], func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// DiskFullText is DiskFull of an error whose kind a library dropped: it goes by
// the words.
func DiskFullText(err error) bool {
	return slices.ContainsFunc(fullDisk[:], func(e syscall.Errno) bool { return strings.Contains(err.Error(), e.Error()) })
}

// IsCode reports whether err carries the code.
func IsCode(err error, c Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == c
}
