//go:build linux

package file

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A record that cannot be read hides no other one: lists and history step over it and say so, and its key can be
// acquired again.
// Holds: promise 24.
func TestARecordThatCannotBeReadHidesNoOther(t *testing.T) {
	huge := func(path string) error { // as a release before this one could write it
		r := record{Key: "bad", Holder: lease.Holder{Command: strings.Repeat("x", mostRecord)}}
		if _, err := r.encode(); err == nil {
			return errors.New("a record is written that is larger than what is read")
		}
		return os.WriteFile(path, append(bytes.Repeat([]byte("x"), mostRecord), '\n'), 0o600)
	}
	text := func(s string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(s), 0o600) }
	}
	other := record{Key: "another"}
	misplaced, err := other.encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(path string) error
		again bool // its key can be acquired
	}{
		"larger than any": {huge, true},
		"garbage":         {text("{}\n00000000\n"), true},
		"no JSON":         {text("x"), true},
		"of another key":  {text(string(misplaced)), true},
		"a link":          {func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) }, false},
		"a directory":     {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, t.TempDir())
			held := map[lease.Key]lease.Ref{}
			for _, key := range []lease.Key{"a", "bad", "z"} {
				held[key] = acquired(t, s, key)
			}
			r := run.Record{ID: run.NewID(), Job: "z", Owner: held["z"].Owner, Token: held["z"].Token, Command: "true"}
			if a, err := s.Ticks.Start(t.Context(), []tick.StartRequest{{Run: r, Lease: held["z"]}}); err != nil || a[0].Status != tick.Won {
				t.Fatal(a, err)
			}
			if _, err := s.Leases.Release(t.Context(), []lease.Ref{held["bad"]}); err != nil {
				t.Fatal(err)
			}
			at := inside(s).leases.lockPath("bad")
			if err := c.spoil(at); err != nil {
				t.Fatal(err)
			}
			found, err := s.Leases.List(t.Context(), "", true)
			if err != nil || len(found.Answers) != 2 || found.Answers[0].Record.Key != "a" || found.Answers[1].Record.Key != "z" {
				t.Errorf("the list: %+v, %v", found.Answers, err)
			}
			runs, err := s.History.Runs(t.Context(), history.Query{})
			if err != nil || len(runs) != 1 || runs[0].ID != r.ID || runs[0].Outcome != "" {
				t.Errorf("history: %+v, %v", runs, err)
			}
			if said := s.Unreadable(); len(said) != 1 || !strings.Contains(said[0], at) {
				t.Errorf("what it says of it: %q, want a line about %s", said, at)
			}
			a, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: "bad", Holder: lease.Holder{ID: lease.NewNonce()}, TTL: 15 * time.Second}})
			if got := err == nil && a.Answers[0].Status == lease.OK; got != c.again {
				t.Errorf("acquired again: %v, want %v: %+v, %v", got, c.again, a.Answers, err)
			}
		})
	}
}

// A run whose row cannot be understood is shown, with the reason, among the others.
// Holds: promise 24.
func TestARunThatCannotBeUnderstoodIsShown(t *testing.T) {
	for column, value := range map[string]string{"attempts": "{", "cause": "[1]", "owner": "x"} {
		t.Run(column, func(t *testing.T) {
			s := openAt(t, t.TempDir())
			var all []run.Record
			for range 3 {
				all = append(all, run.Record{ID: run.NewID(), Job: "j", Outcome: run.Succeeded, Started: time.Now(), Ended: time.Now()})
			}
			if err := s.History.AppendRuns(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			err := inside(s).write(t.Context(), func(tx *sql.Tx) error {
				_, err := tx.Exec("UPDATE dibs_runs SET "+column+" = ? WHERE id = ?", value, all[1].ID)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range []history.Query{{}, {Job: "j"}} {
				runs, err := s.History.Runs(t.Context(), q)
				if err != nil || len(runs) != 3 {
					t.Fatalf("%+v: %d runs, %v", q, len(runs), err)
				}
				for _, r := range runs {
					if damaged := strings.Contains(r.Reason, "cannot be understood"); damaged != (r.ID == all[1].ID) {
						t.Errorf("%s: %q", r.ID, r.Reason)
					}
				}
			}
			if said := s.Unreadable(); len(said) != 1 || !strings.Contains(said[0], all[1].ID) {
				t.Errorf("what it says of it: %q", said)
			}
		})
	}
}

// A part of the journal that cannot be read hides no run.
func TestAJournalThatCannotBeReadHidesNoRun(t *testing.T) {
	s := openAt(t, t.TempDir())
	own, err := inside(s).dir.own()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(own.Join(""), chapterPrefix+"planted"+chapterSuffix)); err != nil {
		t.Fatal(err)
	}
	r := run.Record{ID: run.NewID(), Job: "j", Outcome: run.Succeeded, Started: time.Now(), Ended: time.Now()}
	if err := s.History.AppendRuns(t.Context(), []run.Record{r}); err != nil {
		t.Fatal(err)
	}
	if runs, err := s.History.Runs(t.Context(), history.Query{}); err != nil || len(runs) != 1 {
		t.Errorf("history: %+v, %v", runs, err)
	}
	if said := s.Unreadable(); len(said) != 1 {
		t.Errorf("what it says of it: %q", said)
	}
}

func acquired(t *testing.T, s *store.Store, key lease.Key) lease.Ref {
	t.Helper()
	a, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: key, Holder: lease.Holder{ID: lease.NewNonce(), Host: "h"}, TTL: 15 * time.Second}})
	if err != nil || a.Answers[0].Status != lease.OK {
		t.Fatal(a.Answers, err)
	}
	return a.Answers[0].Record.Ref()
}
