//go:build linux

package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

// Holds: promise 28.
func TestAnInstallationIDIsNoPath(t *testing.T) {
	c := configAt(t.TempDir(), true)
	openAt(t, c.URL.Path)
	storetest.AnInstallationIDIsNoPath(t, OpenConfig, c, func(id string) {
		b, err := json.Marshal(hostMeta{Layout: layout, ID: id})
		if err == nil {
			err = os.WriteFile(filepath.Join(c.URL.Path, hostName), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A command of another user has no part in the lock. When its supervisor and guardian are dead the lock
// is free, and the command may live: its key is granted on proof that it does not, or when the hold
// has lapsed.
// Holds: promise 6.
func TestAFreeLockIsNoProofOfWorkApart(t *testing.T) {
	s := openAt(t, t.TempDir())
	l := inside(s).leases
	die := func(key lease.Key, apart bool, ttl time.Duration) lease.Ref {
		q := requestFor(key, ttl)
		q.Holder.Apart = apart
		a, err := tryAcquire(s, q)
		if err != nil || a.Status != lease.OK {
			t.Fatal(a.Status, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.letGo(l.holds[key])
		return a.Record.Ref()
	}
	want := func(what string, q lease.AcquireRequest, status lease.Status) lease.Answer {
		t.Helper()
		a, err := tryAcquire(s, q)
		if err != nil || a.Status != status {
			t.Errorf("%s: %v, %v; want %v", what, a.Status, err, status)
		}
		return a
	}
	die("together", false, lease.DefaultTTL)
	want("work that shares the lock", requestFor("together", lease.DefaultTTL), lease.OK)

	ref := die("apart", true, lease.DefaultTTL)
	q := requestFor("apart", lease.DefaultTTL)
	if a := want("work apart", q, lease.Held); a.Record.Ref() != ref || !a.Record.Live(instantNow().time()) {
		t.Errorf("it is shown as %+v", a.Record)
	}
	q.Reclaim = ref
	want("with proof", q, lease.OK)

	die("lapsing", true, 50*time.Millisecond)
	time.Sleep(60 * time.Millisecond)
	want("once it has lapsed", requestFor("lapsing", lease.DefaultTTL), lease.OK)
}

// A record is in the file of its key. One that speaks of another key, as a member of the group can write
// one, has no say about it.
func TestARecordSpeaksOfItsOwnKeyOnly(t *testing.T) {
	s := openAt(t, t.TempDir())
	l := inside(s).leases
	granted(t, s, "victim")
	b, err := os.ReadFile(l.lockPath("victim"))
	if err == nil {
		err = os.WriteFile(l.lockPath("k"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r, ok, err := l.read("k", instantNow()); ok || err != nil {
		t.Errorf("the record of k is %+v, %v", r, err)
	}
	if a, err := tryAcquire(s, requestFor("k", lease.DefaultTTL)); err != nil || a.Status != lease.OK || a.Record.Key != "k" {
		t.Errorf("k: %+v, %v", a, err)
	}
}

// What a command inherits of the lock cannot write the record.
func TestTheLockThatIsHandedOnCannotWrite(t *testing.T) {
	s := openAt(t, t.TempDir())
	f, err := s.Descriptor(granted(t, s, "k"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_ACCMODE != unix.O_RDONLY {
		t.Errorf("its flags are %#x, %v", flags, err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it wrote")
	}
}

// Somebody who keeps the journal locked holds no run's end up for longer than a moment.
func TestAJournalThatIsKeptLockedHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	unlocked := keepJournal(t, s)
	defer unlocked()
	const runs = 3
	alone := false
	for attempt := 0; attempt < 5 && !alone; attempt++ { // on a slow machine a renewal may take longer than a journal is waited for
		ended, mine := make(chan error, runs), granted(t, s, lease.Key(fmt.Sprint("mine", attempt)))
		for i := range runs {
			ref, id := granted(t, s, lease.Key(fmt.Sprint("k", attempt, i))), run.NewID()
			if err := beginRun(s, ref, id); err != nil {
				t.Fatal(err)
			}
			go func() { ended <- endRun(s, ref, id) }()
		}
		time.Sleep(100 * time.Millisecond) // they are at it
		if got := statusOfRenewal(t, s, mine); got != lease.OK {
			t.Errorf("a lease beside it: %v", got)
		}
		alone = len(ended) == 0
		for range runs {
			wantFault(t, "end a run", <-ended, inside(s).leases.journal.path, "locked it for seconds")
		}
	}
	if !alone {
		t.Error("other leases wait as long as runs that cannot be recorded")
	}
}

// keepJournal keeps the journal locked, as any process can that shares the directory.
func keepJournal(t *testing.T, s *store.Store) (unlock func()) {
	t.Helper()
	f, err := os.Create(inside(s).leases.journal.path)
	if err == nil {
		err = errors.Join(f.Chmod(0o600), unix.Flock(int(f.Fd()), unix.LOCK_EX))
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// another is what a second process has of the directory: its own open files, and no part in s's table.
func another(s *store.Store) *leases {
	l := inside(s).leases
	return &leases{dir: l.dir, journal: l.journal, turn: l.turn, holds: map[lease.Key]*hold{}}
}

// askedBy is the status that a second process is answered for a key.
func askedBy(t *testing.T, l *leases, key lease.Key) lease.Answer {
	t.Helper()
	r, err := l.Acquire(t.Context(), []lease.AcquireRequest{requestFor(key, lease.DefaultTTL)})
	if err != nil {
		t.Fatal(err)
	}
	return r.Answers[0]
}

func statusOfRenewal(t *testing.T, s *store.Store, ref lease.Ref) lease.Status {
	t.Helper()
	r, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: lease.DefaultTTL}})
	if err != nil {
		t.Fatal(err)
	}
	return r.Answers[0].Status
}

// Fault: a command that unlocked the descriptor which it inherited, as `flock -u 3` does, freed the lease under
// which it ran. So it did for its retries, and where dibs keeps no lock of its own (Detach).
func TestACommandThatUnlocksWhatItInheritedFreesNothing(t *testing.T) {
	for _, detached := range []bool{false, true} {
		t.Run(fmt.Sprintf("detached=%t", detached), func(t *testing.T) {
			s := openAt(t, t.TempDir())
			ref := granted(t, s, "k")
			f, err := s.Descriptor(ref)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if detached {
				if err := s.Detach(ref); err != nil {
					t.Fatal(err)
				}
			}
			if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
				t.Fatal(err)
			}
			l := another(s)
			if a := askedBy(t, l, "k"); a.Status != lease.Held || a.Record.Ref() != ref {
				t.Errorf("another is answered %v, of %+v", a.Status, a.Record)
			}
			if err := l.removeOne(ref, seatOf(t, l, "k")); err != nil {
				t.Error(err)
			}
			if status := statusOfRenewal(t, s, ref); status != lease.OK {
				t.Errorf("the renewal is answered %v", status)
			}
			if r, err := s.Leases.Release(t.Context(), []lease.Ref{ref}); err != nil || r.Answers[0].Status != lease.OK {
				t.Errorf("the release is answered %+v, %v", r, err)
			}
			f.Close()
			if a := askedBy(t, l, "k"); a.Status != lease.OK {
				t.Errorf("after the release another is answered %v", a.Status)
			}
		})
	}
}

// One that frees all of it, on purpose, is found out at the next heartbeat: its dibs then stops it. The new holder's
// record, whose token is larger, is not written over.
func TestAHoldThatItsCommandFreedIsLostAtTheNextHeartbeat(t *testing.T) {
	for _, c := range []struct{ detached, over bool }{{false, false}, {false, true}, {true, false}} {
		t.Run(fmt.Sprintf("detached=%t,over=%t", c.detached, c.over), func(t *testing.T) {
			s := openAt(t, t.TempDir())
			ref := granted(t, s, "k")
			f, err := s.Descriptor(ref)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if c.detached {
				if err := s.Detach(ref); err != nil {
					t.Fatal(err)
				}
			}
			unlock(int(f.Fd()))
			l := another(s)
			a := askedBy(t, l, "k")
			if a.Status != lease.OK || a.Record.Token <= ref.Token {
				t.Fatalf("another is answered %v, %+v", a.Status, a.Record)
			}
			if c.over { // it has come and gone
				if _, err := l.Release(t.Context(), []lease.Ref{a.Record.Ref()}); err != nil {
					t.Fatal(err)
				}
			}
			if status := statusOfRenewal(t, s, ref); status != lease.Gone {
				t.Errorf("the renewal is answered %v", status)
			}
			if rec, _, err := l.read("k", instantNow()); err != nil || rec.Ref() != a.Record.Ref() {
				t.Errorf("the record is %+v, %v, want the newer holder's", rec, err)
			}
		})
	}
}

func seatOf(t *testing.T, l *leases, key lease.Key) seat {
	t.Helper()
	at, err := l.seat(key)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// A grant that a break --now of the hold before it has overtaken is none, also where no request is left to tell of it:
// the new lock file is another's to take.
// Holds: promise 1.
func TestAGrantLooksAgainAtItsFile(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	l := inside(s).leases
	at, err := l.seat("k")
	if err != nil {
		t.Fatal(err)
	}
	ref := granted(t, s, "k")
	h := l.holds["k"]
	if same, err := l.dropRequests(t.Context(), h, ref); err != nil || !same {
		t.Errorf("in place: %t, %v", same, err)
	}
	rec, _, err := l.target(at, "k")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.replace(at, rec, lease.Broken{By: "me", Now: true}); err != nil {
		t.Fatal(err)
	}
	if same, err := l.dropRequests(t.Context(), h, ref); err != nil || same {
		t.Errorf("replaced: %t, %v", same, err)
	}
}

// A grant that cannot look at the requests to earlier holds, since somebody keeps the namespace's lock, says so, and
// leaves nothing that looks like a hold: also not of work apart, whose lock proves nothing.
func TestAGrantThatIsGivenUpLeavesNoHold(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	l := inside(s).leases
	q := requestFor("k", lease.DefaultTTL)
	q.Holder.Replaceable, q.Holder.Apart = true, true
	a, err := tryAcquire(s, q)
	if err != nil || a.Status != lease.OK {
		t.Fatal(a, err)
	}
	if r, err := s.Leases.RequestRelease(t.Context(), a.Record.Ref(), q.Holder); err != nil || r.Answers[0].Status != lease.OK {
		t.Fatal(r, err)
	}
	if r, err := s.Leases.Release(t.Context(), []lease.Ref{a.Record.Ref()}); err != nil || r.Answers[0].Status != lease.OK {
		t.Fatal(r, err)
	}
	lock := filepath.Join(l.dir.path, lockName)
	f, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	q.Holder.ID = lease.NewNonce()
	_, err = tryAcquire(s, q)
	wantFault(t, "acquire beside a stopped process", err, lock, "locked it for seconds")
	f.Close()
	q.Holder.ID = lease.NewNonce()
	if a, err := tryAcquire(s, q); err != nil || a.Status != lease.OK {
		t.Errorf("afterwards: %v of %+v, %v", a.Status, a.Record, err)
	}
}

// dies ends a process's hold as its death would.
func dies(l *leases, key lease.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holds[key]
	delete(l.holds, key)
	h.timer.Stop()
	h.unlock()
	h.close()
}

// A break of a hold that ends before its request is written does nothing to the one that was granted the key since.
func TestABreakLeavesTheNextHoldAlone(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	l := inside(s).leases
	first, next := granted(t, s, "k"), lease.Ref{}
	a, err := l.requestLocked("k", func(_ *record, r *requests) (bool, error) {
		if _, err := s.Leases.Release(t.Context(), []lease.Ref{first}); err != nil {
			return false, err
		}
		next = granted(t, s, "k")
		r.Broken = &lease.Broken{By: "me", Now: true}
		return true, nil
	})
	if err != nil || a.Status != lease.Gone {
		t.Errorf("the break was answered %v, %v", a.Status, err)
	}
	if got := statusOfRenewal(t, s, next); got != lease.OK {
		t.Errorf("the next hold: %v", got)
	}
	wantFiles(t, s, lockFile("k"))
}

// A key that is used once leaves no file behind, whatever was asked of its holder.
func TestAKeyThatIsUsedOnceLeavesNothing(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	ref := granted(t, s, lease.OnceKey())
	if b, err := s.Leases.Break(t.Context(), ref, lease.Broken{By: "me"}); err != nil || b.Answers[0].Status != lease.OK {
		t.Fatal(b, err)
	}
	if r, err := s.Leases.Release(t.Context(), []lease.Ref{ref}); err != nil || r.Answers[0].Status != lease.OK {
		t.Fatal(r, err)
	}
	wantFiles(t, s)
}

// wantFiles checks which files there are of leases.
func wantFiles(t *testing.T, s *store.Store, want ...string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(inside(s).leases.dir.path, leasesName))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the files of leases are %q, want %q", got, want)
	}
}
