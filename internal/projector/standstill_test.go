package projector_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lcm/events"
	"lcm/internal/api"
)

// watchedStores count what is read of all rows, and fail writes where told to.
type watchedStores struct {
	api.Stores
	whole atomic.Int64 // calls that read everything
	full  atomic.Bool  // the disk takes no more
}

func (w *watchedStores) Open() (api.Store, error) {
	s, err := w.Stores.Open()
	return watchedStore{s, w}, err
}

type watchedStore struct {
	api.Store
	w *watchedStores
}

func (s watchedStore) Update(fn func(api.StoreTx) error) error {
	if s.w.full.Load() {
		return fmt.Errorf("commit: %w", syscall.ENOSPC)
	}
	return s.Store.Update(func(tx api.StoreTx) error { return fn(watchedTx{tx, s.w}) })
}

func (s watchedStore) View(fn func(api.StoreTx) error) error {
	return s.Store.View(func(tx api.StoreTx) error { return fn(watchedTx{tx, s.w}) })
}

type watchedTx struct {
	api.StoreTx
	w *watchedStores
}

func (t watchedTx) Digest() (string, error) { t.w.whole.Add(1); return t.StoreTx.Digest() }
func (t watchedTx) VerifyRows(after []byte, limit int) ([]byte, []string, error) {
	t.w.whole.Add(1)
	return t.StoreTx.VerifyRows(after, limit)
}

func (t watchedTx) EachSession(after uint64, limit int) ([]events.Ref, uint64, error) {
	t.w.whole.Add(1)
	return t.StoreTx.EachSession(after, limit)
}

// slowIndexes open indexes whose check of every file does not end.
type slowIndexes struct {
	api.Indexes
	checking chan struct{} // closed when the check has begun
	release  chan struct{}
}

func (s *slowIndexes) Open(epoch string) (api.Index, error) {
	i, err := s.Indexes.Open(epoch)
	return &slowIndex{i, s}, err
}

type slowIndex struct {
	api.Index
	s *slowIndexes
}

func (i *slowIndex) Verify() error {
	select {
	case <-i.s.checking:
	default:
		close(i.s.checking)
		<-i.s.release
	}
	return i.Index.Verify()
}

// TestStartChecksNothingWhole: a start reads the log behind its checkpoint only,
// walks no rows, and answers while the files of the index are still checked.
func TestStartChecksNothingWhole(t *testing.T) {
	log := newLog("E1")
	log.configure(ref("a"), nil)
	for i := range 200 {
		log.say(ref("a"), events.RoleUser, fmt.Sprintf("turn number %d", i))
	}
	f := setup(t, log).start()
	f.awaitIndex()
	must(t, f.halt())

	stores := &watchedStores{Stores: f.deps.Stores}
	indexes := &slowIndexes{Indexes: f.deps.Indexes, checking: make(chan struct{}), release: make(chan struct{})}
	f.deps.Stores, f.deps.Indexes = stores, indexes
	f.deps.Log = &countedLog{fakeLog: log}
	f.start()
	select {
	case <-indexes.checking:
	case <-time.After(10 * time.Second):
		t.Fatal("the index is not checked at all")
	}
	log.say(ref("a"), events.RoleUser, "one more")
	r, err := f.Turns(within(t), api.TurnsRequest{Ref: ref("a"), Token: f.end()})
	must(t, err)
	if len(r.Turns) == 0 {
		t.Error("no turns")
	}
	if n := stores.whole.Load(); n != 0 {
		t.Errorf("%d walks over all rows at the start", n)
	}
	if n := f.deps.Log.(*countedLog).handed.Load(); n != 1 {
		t.Errorf("%d events were read again", n)
	}
	close(indexes.release)
	f.healthy()
}

// countedLog counts the events that a follower gets.
type countedLog struct {
	*fakeLog
	handed atomic.Int64
}

func (l *countedLog) Follow(ctx context.Context, after uint64, handle func(context.Context, []events.Record) error) error {
	return l.fakeLog.Follow(ctx, after, func(ctx context.Context, r []events.Record) error {
		l.handed.Add(int64(len(r)))
		return handle(ctx, r)
	})
}

// TestDoctorSeesAStandstill: rows that are whole and do not move are no health;
// once there is room they follow by themselves.
func TestDoctorSeesAStandstill(t *testing.T) {
	log := newLog("E1")
	log.say(ref("a"), events.RoleUser, "one")
	f := setup(t, log)
	stores := &watchedStores{Stores: f.deps.Stores}
	f.deps.Stores = stores
	f.start()
	f.healthy()
	stores.full.Store(true)
	log.say(ref("a"), events.RoleUser, "two")
	r, err := f.Doctor(within(t), api.DoctorRequest{})
	must(t, err)
	found := ""
	for _, c := range r.Checks {
		if c.Name == "progress" && !c.OK {
			found = c.Detail
		}
	}
	if r.OK || !strings.Contains(found, "the rows stand still at position 1, 1 behind") {
		t.Errorf("doctor: %+v", r)
	}
	if got, err := f.Turns(within(t), api.TurnsRequest{Ref: ref("a")}); err != nil || len(got.Turns) != 1 {
		t.Errorf("reads on a full disk: %+v, %v", got, err)
	}
	stores.full.Store(false)
	f.recovers()
	if _, err := f.Wait(within(t), f.end()); err != nil {
		t.Error(err)
	}
}

// TestDoctorTellsWhatIsWrongWithTheLog: a missing position, or one that changed
// since it was applied, is a fault, whether the scrubber found it or a deep run; an
// event that was rejected as it came is not.
func TestDoctorTellsWhatIsWrongWithTheLog(t *testing.T) {
	log := newLog("E1")
	log.say(ref("a"), events.RoleUser, "one")
	log.put(events.Message{Subject: events.Subject(events.LaneTimeline, ref("a"), log.parts), Data: []byte("forged")}) // at 2
	f := setup(t, log)
	var found atomic.Pointer[api.ScrubStatus]
	found.Store(&api.ScrubStatus{})
	f.deps.Scrub = func() *api.ScrubStatus { return found.Load() }
	f.deps.Verify = func(context.Context) (*api.VerifyReply, error) {
		return &api.VerifyReply{Events: 9, Last: 9, Faults: found.Load().Faults}, nil
	}
	f.start()
	f.awaitIndex()
	walked := api.ScrubStatus{Epoch: "E1", Last: 9, Ended: time.Unix(1, 0), Started: time.Unix(0, 0)}
	for _, c := range []struct {
		name   string
		faults []api.VerifyFault
		epoch  string
		ok     bool
		says   string
	}{
		{"nothing", nil, "E1", true, "every position up to 9 was read"},
		{"a forged event", []api.VerifyFault{{Seq: 2, Kind: api.FaultBroken}}, "E1", true, "every position"},
		{"a lost position", []api.VerifyFault{{Seq: 5, Kind: api.FaultLost}}, "E1", true, "every position"},
		{"an event that changed", []api.VerifyFault{{Seq: 1, Kind: api.FaultBroken, Reason: "x"}}, "E1", false, "position 1 is broken"},
		{"a missing one", []api.VerifyFault{{Seq: 7, Kind: api.FaultMissing, Reason: "x"}}, "E1", false, "position 7 is missing"},
		{"of another log", []api.VerifyFault{{Seq: 7, Kind: api.FaultMissing}}, "E0", true, "not read to its end"},
	} {
		st := walked
		st.Faults, st.Epoch = c.faults, c.epoch
		found.Store(&st)
		r, err := f.Doctor(within(t), api.DoctorRequest{})
		must(t, err)
		i := strings.Index(fmt.Sprint(r.Checks), "{scrub ")
		if i < 0 || r.OK != c.ok || !strings.Contains(fmt.Sprint(r.Checks)[i:], c.says) {
			t.Errorf("%s: ok %v, %v", c.name, r.OK, r.Checks)
		}
		if r, err = f.Doctor(within(t), api.DoctorRequest{Deep: true}); err != nil || c.epoch != "E1" {
			continue // what an earlier walk found of another log says nothing of this one
		}
		if i = strings.Index(fmt.Sprint(r.Checks), "{events "); i < 0 || r.OK != c.ok || !c.ok && !strings.Contains(fmt.Sprint(r.Checks)[i:], c.says) {
			t.Errorf("%s, read by --deep: ok %v, %v", c.name, r.OK, r.Checks)
		}
	}
}
