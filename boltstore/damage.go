package boltstore

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"lcm/internal/problem"
)

// damaged makes an error that is both ErrDamaged and problem.Damaged.
func damaged(format string, a ...any) error {
	return problem.New(problem.Damaged, "%w", damage{fmt.Sprintf(format, a...)}).
		WithHint("run `lcm rebuild --store`")
}

type damage struct{ text string }

func (d damage) Error() string        { return d.text }
func (d damage) Is(target error) bool { return target == ErrDamaged }

// guard makes a fault on the memory map of a damaged file a panic, and settle,
// deferred behind it, turns any panic of bbolt into ErrDamaged. Use them around
// calls of bbolt only, so that no fault of the caller hides in it:
//
//	old := guard()
//	defer func() { settle(old, recover(), &err) }()
func guard() (old bool) { return debug.SetPanicOnFault(true) }

func settle(old bool, p any, err *error) {
	debug.SetPanicOnFault(old)
	if p != nil {
		*err = damaged("a page of the store cannot be read: %v", p)
	}
}

// MoveAside renames a file that cannot be used, so that nothing is lost, and
// returns its new name: path.<why>-1, -2, …
func MoveAside(path, why string) (string, error) {
	dropSums(path)
	for i := 1; ; i++ {
		to := fmt.Sprintf("%s.%s-%d", path, why, i)
		if _, err := os.Lstat(to); err == nil {
			continue
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("move store aside: %w", err)
		}
		if err := os.Rename(path, to); err != nil {
			return "", fmt.Errorf("move store aside: %w", err)
		}
		return to, nil
	}
}
