//go:build linux

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/lease"
)

// A hold is one lease of this instance: the file, opened twice, and what is written there. The record
// is written through fd. lock can only be read: it has the locks that are the hold, and is what others
// inherit.
type hold struct {
	at     seat
	fd     int
	lock   int
	rec    record
	handed bool // somebody has a duplicate, so that the lock may outlive our copy
	timer  *time.Timer
}

// unlock frees the locks at once, for all processes that share them.
func (h *hold) unlock() {
	unlock(h.lock)
	unlock(h.fd)
}

// probes are how many milliseconds a lock may be with processes that only try it: they let go of it at once, having
// found its byte taken.
const probes = 5

// still takes the locks again, which changes nothing if they are held, and says whether the hold is in force. A
// command that inherited the locks can have freed them, and another process can have been granted the key since.
func (h *hold) still() (bool, error) {
	if ok, err := retake(h.lock, time.Sleep); err != nil || !ok {
		return false, err
	}
	if ok, err := tryByte(h.lock, unix.F_RDLCK, heldByte); err != nil || !ok {
		return false, err
	}
	rec, err := readRecord(h.fd, h.at.name)
	return err != nil || rec.Token <= h.rec.Token, nil // what cannot be read is nobody's grant, and is written anew
}

// retake locks fd, as soon as processes that only try its lock have let go of it.
func retake(fd int, sleep func(time.Duration)) (ok bool, err error) {
	ok, err = tryFlock(fd, unix.LOCK_EX)
	for i := 0; i < probes && err == nil && !ok; i++ {
		sleep(time.Millisecond)
		ok, err = tryFlock(fd, unix.LOCK_EX)
	}
	return ok, err
}

func (h *hold) close() {
	closeFD(h.lock)
	closeFD(h.fd)
}

// keep enters a granted lease in the table. Call it with l.mu held.
func (l *leases) keep(h *hold, rec record) {
	h.rec = rec
	h.timer = time.AfterFunc(time.Duration(rec.TTL)*time.Microsecond, func() { l.lapse(h) })
	l.holds[rec.Key] = h
}

// lapse lets go of a hold that was not renewed in time, as a server would: the kernel knows no TTL. The timer stands
// still while the machine is suspended; the boot clock does not.
func (l *leases) lapse(h *hold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holds[h.rec.Key] != h {
		return
	}
	if now := instantNow(); now.boot < h.rec.Expires {
		h.timer.Reset(time.Duration(h.rec.Expires-now.boot) * time.Microsecond)
		return
	}
	l.letGo(h)
}

// live is this instance's hold of key, if its time is not up. Call it with l.mu held.
func (l *leases) live(key lease.Key, now instant) *hold {
	h := l.holds[key]
	if h != nil && now.boot >= h.rec.Expires {
		l.letGo(h)
		return nil
	}
	return h
}

// letGo gives up this instance's copy of the lock. If nobody else has one, the lock is freed explicitly: a child that
// is just being forked would else keep it until its exec.
func (l *leases) letGo(h *hold) {
	delete(l.holds, h.rec.Key)
	h.timer.Stop()
	if !h.handed {
		h.unlock()
	}
	h.close()
}

// edit changes the record of a hold, if it is still the hold's and no other file is in its place: through the table,
// or through the file for a hold that was handed on. change decides, and its result is written only if it answers OK.
// held says whether the kernel still holds the lock.
func (l *leases) edit(ctx context.Context, ref lease.Ref, change func(r *record, held bool, now instant) (lease.Status, error)) (a lease.Answer, err error) {
	at, err := l.seat(ref.Key)
	if err != nil {
		return a, fail("write", l.lockPath(ref.Key), err)
	}
	try := func() (done bool, err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h := l.live(ref.Key, instantNow()); h != nil && h.rec.ref() == ref {
			a, err = l.editHeld(h, at, change)
			return true, err
		}
		a, done, err = l.editFile(ref, at, change)
		return done, err
	}
	_, err = patiently(ctx, time.Second, func() (done bool, err error) {
		err = unkept(ctx, func() error {
			done, err = try()
			return err
		})
		return done, err
	})
	if err == nil && a.Status == 0 {
		err = cmp.Or(ctx.Err(), errStopped)
	}
	return a, fail("write", at.String(), err)
}

func (l *leases) editHeld(h *hold, at seat, change func(*record, bool, instant) (lease.Status, error)) (lease.Answer, error) {
	same, err := at.same(h.fd)
	if err == nil && same {
		same, err = h.still()
	}
	if err != nil {
		return lease.Answer{}, err
	}
	if !same {
		l.letGo(h)
		return l.gone(h.rec.Key)
	}
	now := instantNow()
	rec := h.rec
	status, err := change(&rec, true, now)
	if err == nil && status == lease.OK {
		err = keep(h.fd, &rec, at)
	}
	if err != nil {
		return lease.Answer{}, err
	}
	if status == lease.OK {
		h.rec = rec
		if rec.released() {
			l.letGo(h)
		} else {
			h.timer.Reset(time.Duration(rec.Expires-now.boot) * time.Microsecond)
		}
	}
	return lease.Answer{Status: status, Record: l.view(&rec, !rec.released(), now)}, nil
}

// editFile takes the write lock first: grants take it too, so that the record cannot become
// another's between the check and the write.
func (l *leases) editFile(ref lease.Ref, at seat, change func(*record, bool, instant) (lease.Status, error)) (_ lease.Answer, done bool, err error) {
	fd, err := at.open(unix.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return lease.Answer{Status: lease.Gone}, true, nil
	}
	if err != nil {
		return lease.Answer{}, false, err
	}
	defer closeFD(fd)
	if ok, err := tryByte(fd, unix.F_WRLCK, writeByte); err != nil || !ok {
		return lease.Answer{}, false, err
	}
	defer unlockByte(fd, writeByte)
	if same, err := at.same(fd); err != nil || !same {
		return lease.Answer{}, false, err
	}
	rec, held, err := l.look(fd, at.name)
	if err != nil {
		return lease.Answer{}, false, err
	}
	now := instantNow()
	if rec.ref() != ref || rec.Broken != nil {
		return lease.Answer{Status: lease.Gone, Record: l.view(&rec, held, now)}, true, nil
	}
	status, err := change(&rec, held, now)
	if err == nil && status == lease.OK {
		err = keep(fd, &rec, at)
	}
	return lease.Answer{Status: status, Record: l.view(&rec, held, now)}, true, err
}

// keep writes what became of a record: nothing, if it is released and its key never used again.
func keep(fd int, r *record, at seat) error {
	if r.released() && r.Run == nil && r.Key.Once() {
		err := at.remove()
		// After it: who writes one now sees at its second look that the hold is gone. Nobody acquires the key anew, so
		// nobody relies on the request of a break --now that is under way.
		_ = at.requests().remove()
		return err
	}
	return writeRecord(fd, r)
}

// look reads a record, and asks whether its lock is held, without taking anything. fd must not be the description
// that holds the lock. If the hold's time is up, its process gets a moment to let go of the lock: its timer may be a
// little late.
func (l *leases) look(fd int, name string) (rec record, held bool, err error) {
	for end := time.Now().Add(10 * time.Millisecond); ; time.Sleep(time.Millisecond) {
		if rec, err = readRecord(fd, name); err != nil {
			return rec, false, err
		}
		held, err = byteHeld(fd, heldByte)
		over := !rec.released() && rec.lapsed(l.dir.boot, instantNow())
		if err != nil || !held || !over || time.Now().After(end) {
			return rec, held, err
		}
	}
}

// gone answers with the record as it is now.
func (l *leases) gone(key lease.Key) (lease.Answer, error) {
	r, _, err := l.read(key, instantNow())
	return lease.Answer{Status: lease.Gone, Record: r}, err
}

// alive says whether ref is a hold in force, as far as ticks and runs are concerned: the record is its own, not
// released, and the kernel holds its lock. If another process has the lock the time does not count: a lapsed hold
// whose lock is held has not lost its work yet.
func (l *leases) alive(ref lease.Ref) (bool, error) {
	if ref.Owner == (lease.Nonce{}) {
		return false, nil
	}
	l.mu.Lock()
	l.live(ref.Key, instantNow()) // lets go of our own, if its time is up
	l.mu.Unlock()
	at, err := l.seat(ref.Key)
	if err != nil {
		return false, fail("read", l.lockPath(ref.Key), err)
	}
	rec, held, ok, err := l.lookAt(at)
	if !ok { // a record that cannot be read says nothing of its hold; the lock does
		return held, fail("read", at.String(), err)
	}
	return held && rec.ref() == ref && !rec.released(), fail("read", at.String(), err)
}

// descriptor fulfils store.Store.Descriptor.
func (l *leases) descriptor(ref lease.Ref) (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.live(ref.Key, instantNow())
	if h == nil || h.rec.ref() != ref {
		return nil, fmt.Errorf("lease %q: its lock is not held by this process: %w", ref.Key, lease.ErrLost)
	}
	fd, err := unix.FcntlInt(uintptr(h.lock), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fail("duplicate the lock of", l.lockPath(ref.Key), err)
	}
	h.handed = true
	return os.NewFile(uintptr(fd), l.lockPath(ref.Key)), nil
}

// detach fulfils store.Store.Detach.
func (l *leases) detach(ref lease.Ref) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.live(ref.Key, instantNow())
	if h == nil || h.rec.ref() != ref {
		return fmt.Errorf("lease %q: its lock is not held by this process: %w", ref.Key, lease.ErrLost)
	}
	if !h.handed {
		return fmt.Errorf("lease %q: nobody has a duplicate of its lock (Descriptor), so that detaching would free it", ref.Key)
	}
	l.letGo(h)
	return nil
}

// byOwner finds a hold in the table.
func (l *leases) byOwner(owner lease.Nonce, token lease.Token) (lease.Ref, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.holds {
		if h.rec.Owner == owner && h.rec.Token == token {
			return h.rec.ref(), true
		}
	}
	return lease.Ref{}, false
}
