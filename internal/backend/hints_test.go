package backend

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
)

func parsed(t *testing.T, address string) Address {
	t.Helper()
	c, err := store.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return Address{Config: c, Fleet: true}
}

// What a host remembers of a store is a hint in a file that others may write: it is bounded, it never goes
// back, and each namespace has its own.
func TestWhatAHostRemembersIsBounded(t *testing.T) {
	dir := t.TempDir()
	one, other := parsed(t, "redis://host/0?namespace=one"), parsed(t, "redis://host/0?namespace=other")
	one.remembered(dir).keepEpoch(7)
	one.remembered(dir).keepEpoch(5)
	if got := one.remembered(dir).epoch; got != 7 {
		t.Errorf("the epoch is %d after an older one, want 7", got)
	}
	if got := other.remembered(dir).epoch; got != 0 {
		t.Errorf("another namespace has the epoch %d", got)
	}
	for text, want := range map[string]time.Duration{"1m0s": time.Minute, "1000h": longestSeen, "-1h": 0, "soon": 0} {
		if err := spool.Remember(dir, ttlOf(one.knownAs()), text); err != nil {
			t.Fatal(err)
		}
		if got := one.remembered(dir).ttl; got != want {
			t.Errorf("%s is believed as %s, want %s", text, got, want)
		}
	}
	if err := spool.Remember(dir, epochOf(one.knownAs()), "-3"); err != nil || one.remembered(dir).epoch != 0 {
		t.Errorf("a negative epoch is believed: %d, %v", one.remembered(dir).epoch, err)
	}
}

// Only a store that does not answer makes a tick unavailable.
func TestOnlySilenceIsNoted(t *testing.T) {
	dir := t.TempDir()
	c := parsed(t, "redis://host/0?namespace=n")
	c.Expect = "installation"
	j := &scheduler.Job{Spec: job.Spec{App: "a", Name: "j"}}
	c.NoteUnclaimed(dir, j, "a/j", time.Now(), errors.New("refused"))
	if n := files(t, dir); n != 0 {
		t.Errorf("%d files after an error that is none of the store's", n)
	}
	c.NoteUnclaimed(dir, j, "a/j", time.Now(), lease.ErrUnavailable)
	if n := files(t, dir); n == 0 {
		t.Error("a silence is not noted")
	}
}

func files(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir + "/spool")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(all)
}
