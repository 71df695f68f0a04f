package spool_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

func item(n int) scheduler.Item {
	return scheduler.Item{Unavailable: &scheduler.Unclaimed{Job: fmt.Sprint(n), At: time.Unix(int64(n), 0).UTC()}}
}

// Nothing that was put is lost, whoever delivers while others write and while some give fails.
func TestNothingIsLostBetweenWritersAndDeliverers(t *testing.T) {
	dir := t.TempDir()
	const writers, each = 4, 100
	var (
		mu  sync.Mutex
		got = map[string]int{}
		wg  sync.WaitGroup
		n   int
	)
	give := func(i scheduler.Item) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%7 == 0 {
			return errors.New("the store is down")
		}
		got[i.Unavailable.Job]++
		return nil
	}
	for w := range writers {
		wg.Go(func() {
			s := spool.In(dir, "store", "ns")
			for i := range each {
				if err := s.Put(item(w*each + i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for range 200 {
				_ = spool.In(dir, "store", "ns").Deliver(give)
			}
		})
	}
	wg.Wait()
	for range writers * each {
		if spool.In(dir, "store", "ns").Deliver(give) == nil {
			break
		}
	}
	for i := range writers * each {
		if got[fmt.Sprint(i)] != 1 {
			t.Errorf("item %d was delivered %d times", i, got[fmt.Sprint(i)])
		}
	}
}

func TestATornLineCostsOnlyItself(t *testing.T) {
	dir := t.TempDir()
	s := spool.In(dir, "store", "ns")
	if err := s.Put(item(1)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "spool", "store-ns.jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"unavailable":{"job":"to`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := s.Put(item(2)); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := s.Deliver(func(i scheduler.Item) error { got = append(got, i.Unavailable.Job); return nil }); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != "[1 2]" {
		t.Errorf("delivered %v", got)
	}
}

// An item that no store ever takes holds up nothing but itself.
func TestAnItemThatAlwaysFailsBlocksNobody(t *testing.T) {
	s := spool.In(t.TempDir(), "store", "ns")
	for n := range 5 {
		if err := s.Put(item(n)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	give := func(i scheduler.Item) error {
		if i.Unavailable.Job == "1" {
			return errors.New("not this one")
		}
		got = append(got, i.Unavailable.Job)
		return nil
	}
	for range 3 {
		if err := s.Deliver(give); err == nil {
			t.Error("a delivery that left something said nothing")
		}
	}
	if fmt.Sprint(got) != "[0 2 3 4]" {
		t.Errorf("delivered %v", got)
	}
	var kept []string
	if err := s.Deliver(func(i scheduler.Item) error { kept = append(kept, i.Unavailable.Job); return nil }); err != nil || fmt.Sprint(kept) != "[1]" {
		t.Errorf("kept %v, %v", kept, err)
	}
}

// A long outage fills no disk with ticks that could not be claimed; an outcome is kept all the same.
func TestTicksThatCouldNotBeClaimedAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := spool.In(dir, "store", "ns")
	if err := s.Put(item(1)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "spool", "store-ns.jsonl"), 17<<20); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(item(2)); !errors.Is(err, spool.ErrFull) {
		t.Errorf("a tick more: %v", err)
	}
	if err := s.Put(scheduler.Item{Close: &tick.CloseRequest{}}); err != nil {
		t.Errorf("an outcome: %v", err)
	}
}

// Users who share the host's directory deliver for each other.
func TestWhoSharesTheDirectorySharesTheSpool(t *testing.T) {
	for _, c := range []struct{ root, dir, file os.FileMode }{{0o700, 0o700, 0o600}, {0o770, 0o770, 0o660}} {
		root := t.TempDir()
		if err := os.Chmod(root, c.root); err != nil {
			t.Fatal(err)
		}
		if err := spool.In(root, "store", "ns").Put(item(1)); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]os.FileMode{"spool": c.dir, "spool/store-ns.jsonl": c.file} {
			st, err := os.Stat(filepath.Join(root, path))
			if err != nil || st.Mode().Perm() != want {
				t.Errorf("%s in a directory of mode %o has mode %o, want %o (%v)", path, c.root, st.Mode().Perm(), want, err)
			}
		}
	}
}

// Events that are alike are told as one, with their exact number, also after a delivery that failed.
// Holds: promise 24.
func TestEventsThatAreAlikeAreOne(t *testing.T) {
	s, at := spool.In(t.TempDir(), "store", "ns"), time.Date(2026, 3, 1, 4, 15, 0, 0, time.UTC)
	put := func(n int) {
		for i := range n {
			for _, key := range []string{"hot", "other"} {
				e := history.Event{ID: fmt.Sprint(key, "-", i), At: at.Add(time.Duration(i) * time.Second), Kind: "run-contended", Key: key, Reason: "held"}
				if err := s.Put(scheduler.Item{Event: &e}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	put(30)
	if err := s.Deliver(func(scheduler.Item) error { return errors.New("the store is down") }); err == nil {
		t.Fatal("it was delivered to a store that is down")
	}
	put(12)
	told := map[string][]int{}
	err := s.Deliver(func(i scheduler.Item) error {
		n, _, _ := i.Event.Times()
		told[i.Event.Key] = append(told[i.Event.Key], n)
		return nil
	})
	for _, key := range []string{"hot", "other"} {
		sum := 0
		for _, n := range told[key] {
			sum += n
		}
		if err != nil || sum != 42 || len(told[key]) > 2 {
			t.Errorf("%s: told as %v, %v", key, told[key], err)
		}
	}
}

// What is not to be delivered yet stays, and holds up nothing.
func TestWhatIsNotYetToBeDeliveredStays(t *testing.T) {
	s, early := spool.In(t.TempDir(), "store", "ns"), true
	var got []string
	give := func(i scheduler.Item) error {
		if i.Unavailable.Job == "1" && early {
			return scheduler.ErrNotYet
		}
		got = append(got, i.Unavailable.Job)
		return nil
	}
	for n := range 3 {
		if err := s.Put(item(n)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if err := s.Deliver(give); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(item(3)); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(give); err != nil || fmt.Sprint(got) != "[0 2 3]" {
		t.Errorf("delivered %v, %v", got, err)
	}
	early = false
	if err := s.Deliver(give); err != nil || fmt.Sprint(got) != "[0 2 3 1]" {
		t.Errorf("delivered %v, %v", got, err)
	}
}
