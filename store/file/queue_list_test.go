//go:build linux

package file

import (
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A list of a rare state, or of what ended lately, reads no other tasks. The pages of a common state are whole.
// Holds: promise 26.
func TestAListOfFewTasksReadsNoOthers(t *testing.T) {
	testsize.Counts(t)
	m := metered(t)
	c := &crowd{TB: t}
	c.open()
	id := c.enqueue(task.Spec{Queue: "q", Kind: "k"})[0].ID
	done := func(n int) { c.copies(id, n, "state=5;ended=enqueued") }
	n := testsize.Of(10_000, 500_000)
	done(n)
	c.copies(id, 3, "state=6;ended=enqueued")
	done(n)
	c.copies(id, 2, "state=9;ended=enqueued")
	done(n)
	bad := []task.State{task.Failed, task.Crashed}
	first := id + task.ID(n) + 1
	few5 := []task.ID{first, first + 1, first + 2, first + 3 + task.ID(n), first + 4 + task.ID(n)}
	pages := func(f driver.Filter) (all []task.ID) {
		t.Helper()
		for {
			page, err := c.s.Tasks.Tasks(t.Context(), f)
			c.must(err)
			for _, x := range page {
				all = append(all, x.ID)
				f = f.Past(x.ID)
			}
			if len(page) < f.Rows() {
				return all
			}
		}
	}
	look := func(what string, f driver.Filter, want []task.ID) {
		t.Helper()
		var got []task.ID
		if steps, worst := m.took(func() { got = pages(f) }); steps > lookSteps {
			t.Errorf("%s took %d steps, most of them: %.300s", what, steps, worst)
		}
		if f.Newest {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	for _, newest := range []bool{false, true} {
		look("what failed", driver.Filter{States: bad, Newest: newest}, few5)
		look("what failed, by twos", driver.Filter{States: bad, Newest: newest, Max: 2}, few5)
		look("what failed in a queue", driver.Filter{States: bad, Newest: newest, Queue: "q", Kind: "k"}, few5)
		look("what failed in another one", driver.Filter{States: bad, Newest: newest, Queue: "other"}, nil)
		look("what waits", driver.Filter{States: task.Waits(true), Newest: newest}, []task.ID{id})
		look("what happened lately", driver.Filter{Since: time.Now().Add(time.Hour), Newest: newest}, nil)
	}
	c.copies(id, few+100, "state=6;ended=1000")
	since := time.UnixMicro(1001)
	for _, newest := range []bool{false, true} {
		look("what failed lately", driver.Filter{States: bad, Since: since, Newest: newest}, few5)
		all := pages(driver.Filter{States: bad, Newest: newest, Max: 1000})
		if slices.Reverse(all); !newest {
			slices.Reverse(all)
		}
		if len(all) != few+100+len(few5) || !slices.IsSorted(all) {
			t.Errorf("newest first: %v: %d of many failed tasks", newest, len(all))
		}
	}
}
