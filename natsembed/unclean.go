package natsembed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The server truncates a block behind the first record it cannot read, without
// a word (measured: one flipped bit, 6,500 acknowledged events). Closed blocks
// are covered by S2 compression; the newest one is not. So after a stop that
// was not clean, the newest blocks of every stream are copied aside first, and
// a repair finds the bytes.
const (
	cleanMark = "lcm-clean-stop" // present while the server is not running
	asideDir  = "lcm-aside"      // numbered copies, the newest keptAside of them
	keptAside = 3
	newest    = 2 // blocks per stream: the open one and the one before
)

// beforeStart copies blocks aside where the last stop was not clean, and takes
// the mark away for the time the server runs.
func beforeStart(dir string, log *slog.Logger) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(dir, cleanMark))
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	blocks, err := newestBlocks(dir)
	if err != nil || len(blocks) == 0 {
		return err
	}
	to, err := nextAside(dir)
	if err != nil {
		return err
	}
	for _, b := range blocks {
		rel, err := filepath.Rel(streamsDir(dir), b)
		if err != nil {
			return err
		}
		if err := copyFile(b, filepath.Join(to, rel)); err != nil {
			return fmt.Errorf("copy block aside: %w", err)
		}
	}
	log.Warn("the last stop was not clean: newest blocks copied aside", "to", to, "blocks", len(blocks))
	return nil
}

// markClean is best effort: without the mark the next start copies in vain.
func markClean(dir string) {
	if f, err := os.Create(filepath.Join(dir, cleanMark)); err == nil {
		_ = f.Close()
	}
}

// newestBlocks lists the last blocks of every stream, by block number.
func newestBlocks(dir string) ([]string, error) {
	streams, err := os.ReadDir(streamsDir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range streams {
		found, err := filepath.Glob(filepath.Join(escapeGlob(streamsDir(dir)), s.Name(), "msgs", "*.blk"))
		if err != nil {
			return nil, err
		}
		slices.SortFunc(found, func(a, b string) int { return blockNumber(a) - blockNumber(b) })
		out = append(out, found[max(0, len(found)-newest):]...)
	}
	return out, nil
}

// escapeGlob quotes what Glob would read as a pattern.
func escapeGlob(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

func blockNumber(path string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".blk"))
	if err != nil {
		return -1
	}
	return n
}

// nextAside makes the next numbered directory and removes the oldest ones.
func nextAside(dir string) (string, error) {
	base := filepath.Join(dir, asideDir)
	if err := os.MkdirAll(base, 0o700); err != nil {
		return "", err
	}
	old, err := os.ReadDir(base)
	if err != nil {
		return "", err
	}
	var nums []int
	for _, e := range old {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			nums = append(nums, n)
		}
	}
	slices.Sort(nums)
	next := 1
	if len(nums) > 0 {
		next = nums[len(nums)-1] + 1
	}
	for _, n := range nums[:max(0, len(nums)-keptAside+1)] {
		if err := os.RemoveAll(filepath.Join(base, strconv.Itoa(n))); err != nil {
			return "", err
		}
	}
	to := filepath.Join(base, strconv.Itoa(next))
	return to, os.Mkdir(to, 0o700)
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	if err := out.Sync(); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
