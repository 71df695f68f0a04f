//go:build linux

package file

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/bounds"
	"github.com/dibs-run/dibs/lease"
)

// requests are requests to a holder: Replace, or break. They are in a file beside the lock file (rule T7), because
// only the holder writes to that. They are for one hold, and for no later one.
type requests struct {
	To     lease.Ref     `json:"to"`
	Wanted *lease.Holder `json:"wanted,omitempty"`
	Broken *lease.Broken `json:"broken,omitempty"`
}

// requestsTo reads the requests to ref: mostly none, at the cost of one failed open.
func (l *leases) requestsTo(ref lease.Ref) (requests, error) {
	at, err := l.seat(ref.Key)
	if err != nil {
		return requests{}, fail("read", l.lockPath(ref.Key), err)
	}
	r, err := readRequests(at.requests())
	if err != nil {
		return r, fail("read", at.requests().String(), err)
	}
	if r.To != ref {
		return requests{}, nil
	}
	return r, nil
}

func readRequests(at seat) (requests, error) {
	fd, err := at.open(unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return requests{}, nil
	}
	if err != nil {
		return requests{}, err
	}
	defer closeFD(fd)
	b, err := preadAll(fd)
	if err != nil && !errors.Is(err, errDamaged) {
		return requests{}, err
	}
	var r requests
	if err != nil || json.Unmarshal(b, &r) != nil { // torn by a loss of power, which its hold did not survive either
		return requests{}, nil
	}
	return r, nil
}

// addTo shows the requests on the record that they are about.
func (r requests) addTo(rec *lease.Record) {
	if r.To != rec.Ref() {
		return
	}
	if rec.Wanted == nil {
		rec.Wanted = r.Wanted
	}
	if rec.Broken == nil {
		rec.Broken = r.Broken
	}
}

// RequestRelease fulfils lease.Store.
func (l *leases) RequestRelease(ctx context.Context, ref lease.Ref, by lease.Holder) (lease.Reply, error) {
	by = bounds.Of(by)
	return l.request(ctx, ref.Key, func(rec *record, reqs *requests) (bool, error) {
		if rec.ref() != ref || !rec.Holder.Replaceable {
			return false, nil
		}
		reqs.Wanted = &by
		return true, nil
	})
}

// Break fulfils lease.Store.
func (l *leases) Break(ctx context.Context, ref lease.Ref, b lease.Broken) (lease.Reply, error) {
	b = bounds.Of(b)
	b.At = instantNow().time()
	return l.request(ctx, ref.Key, func(rec *record, reqs *requests) (bool, error) {
		if ref.Owner != (lease.Nonce{}) && rec.ref() != ref {
			return false, nil
		}
		reqs.Broken = &b
		return true, nil
	})
}

// request writes a request beside the lock file of a live hold, and then checks again that the hold is still the
// same. A grant that came in between reads the requests after it wrote its own record: so one of the two sees the
// other.
func (l *leases) request(ctx context.Context, key lease.Key, ask func(*record, *requests) (bool, error)) (lease.Reply, error) {
	var a lease.Answer
	err := l.dir.exclusively(ctx, patience, func() (err error) {
		a, err = l.requestLocked(key, ask)
		return err
	})
	if err != nil {
		return lease.Reply{}, fail("write a request beside", l.lockPath(key), err)
	}
	return lease.Reply{Now: instantNow().time(), Answers: []lease.Answer{a}}, nil
}

func (l *leases) requestLocked(key lease.Key, ask func(*record, *requests) (bool, error)) (lease.Answer, error) {
	at, err := l.seat(key)
	if err != nil {
		return lease.Answer{}, err
	}
	rec, live, err := l.target(at, key)
	if err != nil || !live {
		return lease.Answer{Status: lease.Gone, Record: l.view(&rec, live, instantNow())}, err
	}
	reqs, err := readRequests(at.requests())
	if err != nil {
		return lease.Answer{}, err
	}
	if reqs.To != rec.ref() {
		reqs = requests{To: rec.ref()}
	}
	if ok, err := ask(&rec, &reqs); err != nil || !ok {
		return lease.Answer{Status: lease.Gone, Record: l.view(&rec, true, instantNow())}, err
	}
	if err := replaceJSON(at.in, at.requests().name, reqs, false); err != nil {
		return lease.Answer{}, err
	}
	now, live, err := l.target(at, key)
	if err != nil {
		return lease.Answer{}, err
	}
	if !live || now.ref() != rec.ref() {
		_ = at.requests().remove()
		return lease.Answer{Status: lease.Gone, Record: l.view(&now, live, instantNow())}, nil
	}
	if reqs.Broken != nil && reqs.Broken.Now {
		return l.replace(at, now, *reqs.Broken)
	}
	v := l.view(&now, true, instantNow())
	reqs.addTo(&v)
	return lease.Answer{Status: lease.OK, Record: v}, nil
}

// target reads the hold that is in force, if any.
func (l *leases) target(at seat, key lease.Key) (record, bool, error) {
	l.mu.Lock()
	l.live(key, instantNow())
	l.mu.Unlock()
	rec, held, _, err := l.lookAt(at)
	return rec, held && !rec.released(), err
}

// replace replaces the lock file by one with a freed copy of the record. The old lock excludes nobody any more; its
// holder finds another file at its next heartbeat.
func (l *leases) replace(at seat, rec record, b lease.Broken) (lease.Answer, error) {
	rec.release()
	rec.Broken = &b
	text, err := rec.encode()
	if err != nil {
		return lease.Answer{}, err
	}
	if err := at.in.Replace(at.name, text, false); err != nil {
		return lease.Answer{}, err
	}
	_ = at.requests().remove() // what it says, the new file says too
	return lease.Answer{Status: lease.OK, Record: l.view(&rec, false, instantNow())}, nil
}

// dropRequests removes requests to earlier holds, once the record is the new one's. It says whether path still leads
// to fd: a break --now of the earlier hold may just have replaced the file. While somebody has the namespace's lock,
// who may be about to do that, the answer is errStopped.
func (l *leases) dropRequests(ctx context.Context, h *hold, ref lease.Ref) (same bool, err error) {
	asked := h.at.requests()
	there, err := asked.in.Exists(asked.name)
	if err != nil {
		return false, err
	}
	if !there { // there was none, or a break --now has removed it, behind its new file
		return h.at.same(h.fd)
	}
	err = l.dir.exclusively(ctx, 0, func() error {
		if same, err = h.at.same(h.fd); err != nil || !same {
			return err
		}
		r, err := readRequests(asked)
		if err == nil && r.To != ref {
			err = asked.remove()
		}
		return err
	})
	return same, err
}
