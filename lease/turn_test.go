package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// takes reports whether it is the process's turn for three seconds.
func (p process) takes(t *testing.T) bool {
	t.Helper()
	mine, err := p.Turn(t.Context(), lease.Want{Key: "turn"}, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return mine
}

// A turn is over by itself, in time, whatever has become of who had it.
// Holds: L1.
func TestATurnEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p, q := newProcess(t, b, 1), newProcess(t, b, 2)
		if !p.takes(t) || q.takes(t) || p.takes(t) {
			t.Error("it is not the turn of the first to ask alone")
		}
		time.Sleep(2900 * time.Millisecond)
		if q.takes(t) {
			t.Error("the turn ended too soon")
		}
		p.Close()
		time.Sleep(150 * time.Millisecond)
		if !q.takes(t) {
			t.Error("the turn lasted too long")
		}
		if _, r, err := q.Keeper.Read(t.Context(), "turn"); err != nil || r.TTL != 3*time.Second {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// Who asks for a turn learns that the store holds grants back, without waiting for the end of that, and is told.
// Holds: L9.
func TestATurnTellsOfAHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{HoldBack: true})
		p, begin, heard := newProcess(t, b, 1), time.Now(), make(chan time.Duration, 1)
		mine, err := p.Turn(t.Context(), lease.Want{Key: "turn", OnHeldBack: func(d time.Duration) { heard <- d }}, time.Second)
		if mine || err != nil || time.Since(begin) > time.Second {
			t.Errorf("%t, %v, after %s", mine, err, time.Since(begin))
		}
		synctest.Wait()
		if _, until := p.HeldBack(); until.IsZero() || len(heard) != 1 {
			t.Errorf("held back until %s, and told %d times", until, len(heard))
		}
	})
}

// A store that does not answer is an error, and so is a Keeper that was closed.
func TestATurnOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(t, memory.New(memory.Options{}), 1)
		if !p.takes(t) {
			t.Error("it is nobody's turn")
		}
		p.link.Cut(true)
		begin := time.Now()
		if mine, err := p.Turn(t.Context(), lease.Want{Key: "other"}, time.Second); mine || err == nil || time.Since(begin) > p.Margin().RPCTimeout+time.Second {
			t.Errorf("%t, %v, after %s", mine, err, time.Since(begin))
		}
		p.Close()
		if mine, err := p.Turn(t.Context(), lease.Want{Key: "other"}, time.Second); mine || err == nil {
			t.Errorf("%t, %v", mine, err)
		}
	})
}
