package spool_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/scheduler"
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
