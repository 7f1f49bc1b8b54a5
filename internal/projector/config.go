package projector

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Config of a projector. The zero value of a field means its default.
type Config struct {
	// Partitions held here, nil = all. Recorded in the store: another set
	// needs `lcm rebuild`.
	Partitions []int
	// BatchEvents and BatchBytes bound one transaction: 5,000 events, 8 MiB.
	// Larger ones gain little and make readers' pages last longer. While the
	// log is followed live, a batch is what arrived during the last commit and
	// within CommitEvery, 100 ms, unless a read waits for it: a transaction has
	// its fixed cost, and that is taken from the appends. Where more than
	// BusyEvents come in that time it goes on, for five times as long.
	BatchEvents int
	BatchBytes  int
	CommitEvery time.Duration
	// IndexDocs, IndexBytes and IndexEvery bound one batch of the index: 1,000
	// documents, 4 MiB of text or 100 ms, whichever comes first.
	IndexDocs  int
	IndexBytes int
	IndexEvery time.Duration
	// IndexShare is the part of the time, percent, that the index may work
	// while events come faster than BusyEvents in each IndexEvery: 20 %, above
	// 100 events. A document costs as much as its append many times over; what
	// stays behind is reported, and caught up at full speed afterwards.
	IndexShare int
	BusyEvents uint64
	// DispatchEvery is how often due sessions are published: 1 s.
	DispatchEvery time.Duration
	// ReadWait is how long a read without a deadline waits for its token: 10 s.
	ReadWait time.Duration
	// ScanWait bounds the scan of a regex: 5 s, less where the caller's
	// deadline is nearer.
	ScanWait time.Duration
	// Workers decode and scan in parallel: the number of processors.
	Workers int
	// Witness is the file that remembers how far the log had come, beside the
	// rows; "" = none.
	Witness string
}

func (c Config) withDefaults() Config {
	c.BatchEvents = cmp.Or(c.BatchEvents, 5_000)
	c.BatchBytes = cmp.Or(c.BatchBytes, 8<<20)
	c.IndexDocs = cmp.Or(c.IndexDocs, 1_000)
	c.IndexBytes = cmp.Or(c.IndexBytes, 4<<20)
	c.IndexEvery = cmp.Or(c.IndexEvery, 100*time.Millisecond)
	c.CommitEvery = cmp.Or(c.CommitEvery, 100*time.Millisecond)
	c.IndexShare = cmp.Or(c.IndexShare, 20)
	c.BusyEvents = cmp.Or(c.BusyEvents, 100)
	c.DispatchEvery = cmp.Or(c.DispatchEvery, time.Second)
	c.ReadWait = cmp.Or(c.ReadWait, 10*time.Second)
	c.ScanWait = cmp.Or(c.ScanWait, 5*time.Second)
	c.Workers = cmp.Or(c.Workers, runtime.GOMAXPROCS(0))
	return c
}

// Validate rejects contradictions, naming the field.
func (c Config) Validate() error {
	var errs []error
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"BatchEvents", int64(c.BatchEvents)},
		{"BatchBytes", int64(c.BatchBytes)},
		{"IndexDocs", int64(c.IndexDocs)},
		{"IndexBytes", int64(c.IndexBytes)},
		{"IndexEvery", int64(c.IndexEvery)},
		{"CommitEvery", int64(c.CommitEvery)},
		{"IndexShare", int64(c.IndexShare)},
		{"DispatchEvery", int64(c.DispatchEvery)},
		{"ReadWait", int64(c.ReadWait)},
		{"ScanWait", int64(c.ScanWait)},
		{"Workers", int64(c.Workers)},
	} {
		if f.n < 0 {
			errs = append(errs, fmt.Errorf("projector: %s is %d: it cannot be negative", f.name, f.n))
		}
	}
	if c.IndexShare > 100 {
		errs = append(errs, fmt.Errorf("projector: IndexShare is %d %%: at most 100", c.IndexShare))
	}
	if c.Partitions != nil && len(c.Partitions) == 0 {
		errs = append(errs, errors.New("projector: Partitions is empty: nil means all"))
	}
	for i, p := range c.Partitions {
		if p < 0 || slices.Contains(c.Partitions[:i], p) {
			errs = append(errs, fmt.Errorf("projector: Partitions %v: every one once, from 0", c.Partitions))
			break
		}
	}
	return errors.Join(errs...)
}
