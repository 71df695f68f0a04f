//go:build linux

package million

import (
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A made-up round for each thing that may not be: the judge sees it, and finds nothing in one that went well.
func TestTheJudgeSeesWhatIsWrong(t *testing.T) {
	const live, dead, lapsed, old, late, deaf = 1, 2, 3, 4, 5, 6
	join := func(shift uint64) record { return record{What: joined, Shift: shift} }
	lasts := func(what int64, shift uint64, at int) record { // asked for and answered at that second
		us := int64(1+at) * 1_000_000
		return record{What: what, Shift: shift, At: us, Token: lease.Token(us)}
	}
	hold := func(shift uint64, at int) record { return lasts(renewed, shift, at) }
	leave := func(shift uint64, at int) record { return lasts(released, shift, at) }
	fetch := func(shift uint64, token int) record {
		return record{What: fetched, Shift: shift, Task: 7, Token: lease.Token(token)}
	}
	done := func(shift uint64, token int) record {
		return record{What: completed, Shift: shift, Task: 7, Token: lease.Token(token)}
	}
	returned := func(shift uint64, token int) record {
		return record{What: ended, Shift: shift, Task: 7, Token: lease.Token(token)}
	}
	kept := func(token int) *driver.Task {
		return &driver.Task{ID: 7, State: task.Succeeded, Token: lease.Token(token), Attempts: 1}
	}
	failed := kept(1)
	failed.State = task.Failed
	again := kept(1)
	again.Attempts = 2
	for _, c := range []struct {
		name    string
		records []record
		task    *driver.Task
		want    string // empty: nothing
	}{
		{"done", []record{fetch(live, 1), done(live, 1)}, kept(1), ""},
		{"answered again", []record{fetch(live, 1), done(live, 1), done(live, 1)}, kept(1), ""},
		{"rescued", []record{fetch(dead, 1), fetch(live, 2), done(live, 2)}, kept(2), ""},
		{"taken back", []record{fetch(lapsed, 1), fetch(live, 2), done(live, 2)}, kept(2), ""},
		{"taken back when its lease was renewed too late", []record{fetch(late, 1), fetch(live, 2), done(live, 2)}, kept(2), ""},
		{"taken back when its lease was not released", []record{fetch(deaf, 1), fetch(live, 2), done(live, 2)}, kept(2), ""},
		{"handed back", []record{fetch(live, 1), returned(live, 1), fetch(live, 2), done(live, 2)}, kept(2), ""},
		{"died before it wrote", []record{fetch(dead, 1)}, kept(1), ""},
		{"died before it wrote what it was given", nil, kept(1), ""},
		{"lost", []record{fetch(live, 1), done(live, 1)}, nil, "lost"},
		{"left", []record{fetch(live, 1)}, failed, "not done"},
		{"stale", []record{fetch(dead, 1), fetch(live, 2), done(dead, 1)}, kept(2), "stale worker"},
		{"stale, and the store believes it", []record{fetch(dead, 1), fetch(live, 2), done(dead, 1)}, kept(1), "stale worker"},
		{"without a lease", []record{fetch(old, 1), done(old, 1)}, kept(1), "without a lease"},
		{"twice", []record{fetch(dead, 1), done(dead, 1), fetch(live, 2), done(live, 2)}, kept(2), "completed twice"},
		{"another token", []record{fetch(live, 1), done(live, 1)}, kept(2), "another completion"},
		{"given twice", []record{fetch(dead, 1), fetch(live, 1), done(live, 1)}, kept(1), "given twice"},
		{"stolen", []record{fetch(live, 1), fetch(live, 2), done(live, 2)}, kept(2), "lived"},
		{"forgotten", []record{fetch(live, 1)}, kept(1), "does not know"},
		{"attempts", []record{fetch(live, 1), done(live, 1)}, again, "not one attempt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			books := []book{{name: "live", records: []record{join(lapsed), join(live), hold(live, 0), hold(live, 10), leave(live, 20)}}, {name: "dead", killed: true, records: []record{join(dead)}},
				{name: straggler, stale: true, records: []record{join(old)}},
				{name: "late", records: []record{join(late), hold(late, 0), hold(late, 11), leave(late, 12)}}, {name: "deaf", records: []record{join(deaf), hold(deaf, 0)}}}
			for _, r := range c.records {
				b := map[uint64]int{live: 0, lapsed: 0, dead: 1, old: 2, late: 3, deaf: 4}[r.Shift]
				books[b].records = append(books[b].records, r)
			}
			j := newJudge([]task.ID{7}, books, 10*time.Second)
			if c.task != nil {
				j.see(c.task)
			}
			err := j.end(0)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, want %q", err, c.want)
			}
		})
	}
	j := newJudge(nil, nil, 0)
	j.see(kept(1))
	if err := j.end(0); err == nil || !strings.Contains(err.Error(), "nobody enqueued") {
		t.Errorf("of a stranger it says %v", err)
	}
	j = newJudge([]task.ID{7}, nil, 0)
	j.see(kept(1))
	if err := j.end(0); err == nil || !strings.Contains(err.Error(), "done by nobody") {
		t.Errorf("of a task that was done without a worker it says %v", err)
	}
}
