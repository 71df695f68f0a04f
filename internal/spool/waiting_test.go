package spool_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

func TestWaitingTellsWhatWaitsAndSinceWhen(t *testing.T) {
	dir := t.TempDir()
	if all, err := spool.Waiting(dir); len(all) != 0 || err != nil {
		t.Errorf("an empty directory: %+v, %v", all, err)
	}
	one, two := spool.In(dir, "store", "ns"), spool.In(dir, "other", "ns")
	ended := time.Date(2026, 11, 21, 4, 15, 0, 0, time.UTC)
	for _, err := range []error{
		one.Put(scheduler.Item{Close: &tick.CloseRequest{Run: run.Record{Ended: ended.Add(time.Hour)}}}),
		one.Put(scheduler.Item{Unavailable: &scheduler.Unclaimed{Job: "a", At: ended}}),
		// A delivery that fails leaves what it set aside, beside what comes later.
		one.Deliver(func(scheduler.Item) error { return errDown }),
		one.Put(scheduler.Item{Close: &tick.CloseRequest{Run: run.Record{Tick: ended.Add(-time.Hour)}}}),
		two.Put(item(1)),
		two.Put(scheduler.Item{Event: &history.Event{Kind: "lease-lost", Key: "k"}}), // for which nobody waits
	} {
		if err != nil && !errors.Is(err, errDown) {
			t.Fatal(err)
		}
	}
	torn := filepath.Join(dir, "spool", "other-ns.jsonl")
	if b, err := os.ReadFile(torn); err != nil || os.WriteFile(torn, append(b, `{"clo`...), 0o600) != nil {
		t.Fatal(err)
	}
	all, err := spool.Waiting(dir)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if b := all[0]; b.Store != "other-ns" || b.Items != 1 || b.Since.Unix() != 1 {
		t.Errorf("%+v", b)
	}
	if b := all[1]; b.Store != "store-ns" || b.Items != 3 || !b.Since.Equal(ended.Add(-time.Hour)) || !strings.HasSuffix(b.Path, "spool/store-ns.jsonl") {
		t.Errorf("%+v", b)
	}
	for range 3 {
		_ = one.Deliver(func(scheduler.Item) error { return nil })
		_ = two.Deliver(func(scheduler.Item) error { return nil })
	}
	if all, err := spool.Waiting(dir); len(all) != 0 || err != nil {
		t.Errorf("when all is delivered: %+v, %v", all, err)
	}
}

var errDown = errors.New("the store is down")
