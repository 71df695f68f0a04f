//go:build linux

package file

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// ran does a whole run without a tick, as dibs run does.
func ran(t testing.TB, s *store.Store, key lease.Key) (id string) {
	t.Helper()
	ref := granted(t, s, key)
	id = run.NewID()
	if err := beginRun(s, ref, id); err != nil {
		t.Fatal(err)
	}
	if err := endRun(s, ref, id); err != nil {
		t.Fatal(err)
	}
	return id
}

func wantRuns(t *testing.T, s *store.Store, want int) {
	t.Helper()
	runs := runsOf(t, s, "")
	if len(runs) != want {
		t.Errorf("%d runs, want %d", len(runs), want)
	}
	for _, r := range runs {
		if r.Outcome != run.Succeeded || r.Inferred || r.Started.IsZero() || r.Ended.Before(r.Started) || r.Command != "true" {
			t.Errorf("run %+v", r)
		}
	}
}

func namespaceOf(s *store.Store) string { return inside(s).dir.path }

func TestRunWithoutTickNeedsNoDatabase(t *testing.T) {
	s := openAt(t, t.TempDir())
	for range 3 {
		ran(t, s, "k")
	}
	if _, err := os.Stat(inside(s).path); !os.IsNotExist(err) {
		t.Errorf("the database: %v", err)
	}
	wantRuns(t, s, 3)
}

func TestDamagedJournalLosesNoOtherRun(t *testing.T) {
	s := openAt(t, t.TempDir())
	write := func(text string) {
		f, err := os.OpenFile(filepath.Join(namespaceOf(s), "journal.jsonl"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("garbage")
	ran(t, s, "a")
	write("\n" + `{"run_id":"torn","job":`)
	ran(t, s, "b")
	write(strings.Repeat("\x00", 512))
	write("\n" + `{"run_id":"no outcome"}` + "\n" + `{"run_id":"cut off","outc`)

	wantRuns(t, s, 2)
	bad, err := os.ReadFile(filepath.Join(namespaceOf(s), "journal.bad"))
	if err != nil || !bytes.Contains(bad, []byte("garbage\n")) || !bytes.Contains(bad, []byte("cut off")) || bytes.Count(bad, []byte("\n")) != 5 {
		t.Errorf("what is kept of the damage: %q, %v", bad, err)
	}
	events, err := s.History.Events(context.Background(), history.Query{})
	if err != nil || len(events) != 1 || events[0].Kind != "journal-damaged" || !strings.HasPrefix(events[0].Reason, "5 lines") {
		t.Errorf("events: %+v, %v", events, err)
	}
	ran(t, s, "c")
	wantRuns(t, s, 3)
}

// If a reader dies between its commit and the removal of what it read, the next reads it again.
func TestJournalIsImportedOnce(t *testing.T) {
	s := openAt(t, t.TempDir())
	ran(t, s, "a")
	id := ran(t, s, "b")
	journal := filepath.Join(namespaceOf(s), "journal.jsonl")
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	wantRuns(t, s, 2)
	if left, _ := filepath.Glob(filepath.Join(namespaceOf(s), "journal*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(filepath.Join(namespaceOf(s), "journal-left.jsonl"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	ran(t, s, "c")
	wantRuns(t, s, 3)
	if len(runsOf(t, s, id)) != 1 {
		t.Error("a run was imported twice")
	}
}

// A chapter that somebody may still be writing to is read, and read again later.
func TestStoppedWriterLosesNoRun(t *testing.T) {
	s := openAt(t, t.TempDir())
	ran(t, s, "a")
	f, err := os.OpenFile(filepath.Join(namespaceOf(s), "journal.jsonl"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := tryFlock(int(f.Fd()), unix.LOCK_SH); !ok || err != nil {
		t.Fatal(ok, err)
	}
	wantRuns(t, s, 1)
	now := time.Now().UTC()
	line, err := json.Marshal(run.Record{ID: run.NewID(), Job: "late", Command: "true", Outcome: run.Succeeded, Started: now, Ended: now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append([]byte("\n"), line...)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	ran(t, s, "b")
	wantRuns(t, s, 3)
	if left, _ := filepath.Glob(filepath.Join(namespaceOf(s), "journal*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestProcessesImportTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openAt(t, dir)
	const n = 500
	for i := range n {
		ran(t, s, lease.Key("k"+strconv.Itoa(i%7)))
	}
	var all []*process
	for range 4 {
		all = append(all, play(t, "import", dir))
	}
	for _, p := range all {
		if got := p.line(t); got != strconv.Itoa(n) {
			t.Errorf("a reader saw %s runs, want %d", got, n)
		}
	}
	wantRuns(t, s, n)
}

// Killed between its line and its record, a run is told of by its line.
func TestReportWinsOverInference(t *testing.T) {
	for _, journalFirst := range []bool{true, false} {
		s := openAt(t, t.TempDir())
		l := inside(s).leases
		ref := granted(t, s, "k")
		id := run.NewID()
		if err := beginRun(s, ref, id); err != nil {
			t.Fatal(err)
		}
		at, err := l.seat("k")
		if err != nil {
			t.Fatal(err)
		}
		rec, _, _, err := l.lookAt(at)
		if err != nil || rec.Run == nil {
			t.Fatal(rec, err)
		}
		report := run.Record{ID: id, Outcome: run.Succeeded}
		if journalFirst {
			err = l.conclude(&rec, report)
		}
		l.mu.Lock()
		l.letGo(l.holds["k"]) // as its death would
		l.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if journalFirst {
			granted(t, s, "k") // purges it as crashed
		} else {
			wantCrashed(t, s, id)
			err = l.conclude(&rec, report)
		}
		if err != nil {
			t.Fatal(err)
		}
		wantRuns(t, s, 1)
	}
}

func TestLongJournalIsImportedByItself(t *testing.T) {
	s := openAt(t, t.TempDir())
	ran(t, s, "k")
	f, err := os.OpenFile(filepath.Join(namespaceOf(s), "journal.jsonl"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Repeat("\n", journalLong)); err != nil {
		t.Fatal(err)
	}
	ran(t, s, "k")
	if n := inside(s).leases.journal.size(); n != 0 {
		t.Errorf("the journal has %d bytes", n)
	}
	wantRuns(t, s, 2)
}

// A run whose hold of single use has died is not lost if it cannot be recorded at once.
// Holds: promise 10.
func TestACrashThatCannotBeRecordedYet(t *testing.T) {
	t.Parallel()
	s := openAt(t, t.TempDir())
	other, key := another(s), lease.OnceKey()
	ref := askedBy(t, other, key).Record.Ref()
	r := run.Record{ID: run.NewID(), Job: "j", Owner: ref.Owner, Token: ref.Token, Started: time.Now()}
	if a, err := (&ticks{&db{dir: other.dir, leases: other}}).Start(t.Context(), []tick.StartRequest{{Run: r, Lease: ref}}); err != nil || a[0].Status != tick.Won {
		t.Fatal(a, err)
	}
	dies(other, key)
	app, err := OpenDB(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	tx, err := app.BeginTx(t.Context(), nil) // nobody else writes meanwhile
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := s.History.Runs(short, history.Query{}); err == nil {
		t.Fatalf("beside a writer: %v", got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := runsOf(t, s, ""); len(got) != 1 || got[0].Outcome != run.Crashed {
		t.Errorf("%+v", got)
	}
}
