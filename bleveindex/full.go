package bleveindex

import (
	"os"
	"path/filepath"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// A disk that takes no more damages nothing: what was written stays, searches
// go on, and the index is opened anew once there is room. Bleve does not always
// keep the error's kind, only its words.

func full(err error) bool {
	return problem.DiskFull(err) || problem.DiskFullText(err)
}

// probeBytes must fit on the disk before it is written to again.
const probeBytes = 1 << 20

// stopped is the failure of an index whose disk took no more.
func (x *Index) stopped(err error) error {
	path := filepath.Join(filepath.Dir(x.dir), "index-probe")
	werr := os.WriteFile(path, make([]byte, probeBytes), 0o600)
	_ = os.Remove(path)
	if werr != nil {
		return problem.New(problem.Unavailable, "index %s: its disk takes no more: %w", x.dir, werr)
	}
	return problem.New(problem.Unavailable, "index %s: its disk took no more (%v): %w", x.dir, err, api.ErrReopen)
}

// blocked is why nothing can be written any more, nil while it can.
func (x *Index) blocked() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.full
}
