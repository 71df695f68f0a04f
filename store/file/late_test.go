//go:build linux

package file

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// An acquire is never granted past its not_after, whatever it waited for in this process.
// Holds: L1.
func TestNothingIsGrantedLate(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	l := inside(s).leases
	m, err := l.dir.meta.current()
	if err != nil {
		t.Fatal(err)
	}
	q, now := requestFor("k", lease.DefaultTTL), instantNow()
	for left, want := range map[time.Duration]bool{-time.Microsecond: true, 0: false, time.Second: false} {
		q.NotAfter = now.time().Add(left)
		if a, refused := l.refuse(&q, m, now); refused != want || want && a.Status != lease.Late {
			t.Errorf("with %s left: %v, %v", left, refused, a.Status)
		}
	}
	q.NotAfter = now.time().Add(200 * time.Millisecond)
	answer := make(chan lease.Answer, 1)
	l.mu.Lock()
	go func() {
		a, err := tryAcquire(s, q)
		if err != nil {
			t.Error(err)
		}
		answer <- a
	}()
	for !instantNow().past(q.NotAfter) {
		time.Sleep(10 * time.Millisecond)
	}
	l.mu.Unlock()
	if a := <-answer; a.Status != lease.Late {
		t.Errorf("it waited, and was answered %v", a.Status)
	}
}

// The same of a renewal, which looks at its bound once more when it has the record.
func TestNothingIsRenewedLate(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	l := inside(s).leases
	ref := acquire(t, s, "k").Record.Ref()
	late := instantNow().time().Add(500 * time.Millisecond)
	answer := make(chan lease.Status, 1)
	l.mu.Lock()
	go func() {
		r, err := s.Leases.Renew(t.Context(), []lease.RenewRequest{{Ref: ref, TTL: time.Minute, NotAfter: late}})
		if err != nil {
			t.Error(err)
			answer <- 0
			return
		}
		answer <- r.Answers[0].Status
	}()
	for !instantNow().past(late) {
		time.Sleep(10 * time.Millisecond)
	}
	l.mu.Unlock()
	if got := <-answer; got != lease.Late {
		t.Errorf("it waited, and was answered %v", got)
	}
}
