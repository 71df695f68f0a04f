package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// fetchAnyWindow fetches as often as it can until three times as many are given as a rate allows at once.
func fetchAnyWindow(w *world) {
	const count, per = 40, 2 * time.Second
	worker := w.worker(w.s)
	w.check("Declare", w.s.Queue.Declare(w.ctx, map[string]task.Rate{"k": {Count: count, Per: per}}))
	w.addMany(4*count, some())
	var at []time.Time // of each gift, by the store's clock: a first token is one (rule L10)
	within := func(d time.Duration, now time.Time) (n int) {
		for _, t := range at {
			if now.Sub(t) < d && !t.After(now) {
				n++
			}
		}
		return n
	}
	for len(at) < 3*count {
		before := w.now(w.s)
		f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Max: 1 + len(at)%7})
		for _, t := range f.Tasks {
			at = append(at, time.UnixMicro(int64(t.Token)))
		}
		// A slice of a sixteenth counts until its last task is old enough, and a little longer.
		if most := per*9/8 + 10*time.Millisecond + f.Now.Sub(before); len(f.Tasks) == 0 && within(most, f.Now) < count {
			w.Fatalf("nothing is given, and within %v only %d were", most, within(most, f.Now))
		}
	}
	for _, t := range at {
		if n := within(per, t); n > count {
			w.Fatalf("%d tasks within %v; %d may be fetched", n, per, count)
		}
	}
}

// sizedSpec is a task with so many bytes of arguments.
func sizedSpec(n int) task.Spec {
	s := some()
	s.Args = []byte(`"` + strings.Repeat("x", n-2) + `"`)
	return s
}

func fetchBytes(w *world) {
	worker := w.worker(w.s)
	const size, most = 100_000, 250_000
	var all []task.ID
	limit, rated := limited("l", 100).Limit, "rated"
	w.check("Declare", w.s.Queue.Declare(w.ctx, map[string]task.Rate{rated: {Count: 1000, Per: time.Second}}))
	for i := range 24 {
		s := sizedSpec(size)
		switch i / 8 {
		case 1:
			s.Limit = limit
		case 2:
			s.Kind = rated
		}
		all = append(all, w.add1(s))
	}
	got := map[task.ID]bool{}
	for n := 0; len(got) < len(all); n++ {
		f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Max: 100, Bytes: most})
		sum := 0
		for i := range f.Tasks {
			sum += len(f.Tasks[i].Args)
			got[f.Tasks[i].ID] = true
		}
		if sum > most {
			w.Fatalf("%d tasks with %d bytes, of %d", len(f.Tasks), sum, most)
		}
		if len(got) < len(all) && (f.NextDue.IsZero() || f.NextDue.After(f.Now)) {
			w.Errorf("it is not said that there is more: next at %v, now %v", f.NextDue, f.Now)
		}
		if n > 10*len(all) {
			w.Fatalf("%d of %d tasks after %d fetches", len(got), len(all), n)
		}
	}
	large := w.add1(sizedSpec(task.MaxArgs))
	f := w.fetchWith(w.s, driver.FetchRequest{Worker: worker, Max: 100, Bytes: 1})
	w.order("one that alone is too large", ids(f.Tasks), []task.ID{large})
}

// manyNames is how many kinds, queues and limits there are.
var manyNames = testsize.Of(1200, 5000)

func fetchManyKinds(w *world) {
	for _, queues := range []int{1, manyNames} {
		var specs []task.Spec
		for i := range manyNames {
			s := some()
			s.Queue, s.Kind = fmt.Sprint("q", i%queues), fmt.Sprint("kind", i)
			specs = append(specs, s)
		}
		for part := range slices.Chunk(specs, 1000) {
			w.add(part...)
		}
	}
	// One queue of very many kinds, beside very many queues of others.
	worker, process := w.worker(w.s), w.process()
	given := 0
	for fetches := 0; given < manyNames+1; fetches++ { // one of the many queues is also called q0
		f, err := process.Queue.Fetch(w.ctx, driver.FetchRequest{Worker: worker, Queues: []string{"q0"}, Max: 100, Suspects: true})
		w.check("Fetch", err)
		given += len(f.Tasks)
		var ends []driver.Completion
		for _, t := range f.Tasks {
			ends = append(ends, w.ended(t.Ref, driver.Success))
		}
		_, err = process.Queue.Finish(w.ctx, worker, ends)
		w.check("Finish", err)
		if fetches > manyNames {
			w.Fatalf("%d of %d tasks after %d fetches", given, manyNames+1, fetches)
		}
		if fetches%20 == 0 {
			_, err := process.Queue.Maintain(w.ctx, driver.MaintainRequest{})
			w.check("Maintain", err)
		}
	}
	// They are empty now, and hold up nobody.
	last := some()
	last.Queue, last.Kind = "q0", "another"
	w.add(last)
	for fetches := 0; given < manyNames+2; fetches++ {
		f, err := process.Queue.Fetch(w.ctx, driver.FetchRequest{Worker: worker, Queues: []string{"q0"}, Max: 100, Suspects: true})
		w.check("Fetch", err)
		if given += len(f.Tasks); fetches > manyNames {
			w.Fatalf("the last task is not given in %d fetches", fetches)
		}
	}
	subs, err := w.s.Tasks.Queues(w.ctx)
	w.check("Queues", err)
	if len(subs) < manyNames {
		w.Errorf("%d of %d sub-queues are listed", len(subs), 2*manyNames)
	}
}

func fetchManyLimits(w *world) {
	worker := w.worker(w.s)
	var specs []task.Spec
	for i := range 2 * manyNames {
		s := limited(fmt.Sprint("l", i/2), 1)
		specs = append(specs, s)
	}
	for part := range slices.Chunk(specs, 1000) {
		w.add(part...)
	}
	equal(w, "tasks that were given", len(w.workOff(worker, len(specs))), len(specs))
	equal(w, "repairs", w.maintain().Repaired, 0)
}

// fetchExtremes enqueues whatever task.Spec.Check accepts of extreme values, twice, and lists, fetches and ends it.
func fetchExtremes(w *world) {
	worker := w.worker(w.s)
	long := time.Duration(math.MaxInt64)
	n := 0
	for _, d := range []time.Duration{1, long / 10, long/10 + 1, long - 1, long} {
		for name, spec := range map[string]task.Spec{
			"delay":       {Delay: d},
			"timeout":     {Options: task.Options{Timeout: d}},
			"backoff":     {Options: task.Options{Backoff: &task.Backoff{List: []time.Duration{d}, Base: d, Cap: d, Factor: 1000}}},
			"window":      {Unique: &task.Unique{Key: "w", Window: d}},
			"debounce":    {Delay: d, Unique: &task.Unique{Key: "d", Until: task.UntilStarted, Again: task.Debounce}},
			"max wait":    {Delay: d, Unique: &task.Unique{Key: "m", Until: task.UntilStarted, Again: task.Debounce, MaxWait: d}},
			"counts":      {Limit: &task.Limit{Key: "c", Max: 1_000_000}, Options: task.Options{MaxAttempts: 1_000_000, MaxCrashes: 1_000_000, MaxSnoozes: 1_000_000}},
			"expires":     {ExpiresAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)},
			"retry until": {Options: task.Options{RetryUntil: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}},
		} {
			n++
			spec.Queue, spec.Kind = "q", fmt.Sprint("k", n)
			at := w.now(w.s)
			if err := spec.Check(); err != nil {
				w.Fatalf("%s %v: %v", name, d, err)
			}
			for range 2 {
				if _, err := w.s.Queue.Enqueue(w.ctx, []task.Spec{spec}); err != nil {
					w.Fatalf("%s %v: %v", name, d, err)
				}
			}
			found := w.tasks(driver.Filter{Kind: spec.Kind})
			if len(found) == 0 {
				w.Fatalf("%s %v: it is not listed", name, d)
			}
			for _, t := range found {
				if due := at.Add(spec.Delay); t.RunAt.Before(due.Add(-time.Millisecond)) || t.RunAt.After(due.Add(time.Hour)) || (t.State == task.Scheduled) != (spec.Delay > time.Millisecond) && spec.Delay > time.Hour {
					w.Errorf("%s %v: it is %s, for %v; want about %v", name, d, t.State, t.RunAt, due)
				}
			}
		}
	}
	for _, t := range w.fetch(worker, 1000) {
		w.done(worker, t.Ref, driver.Success)
	}
}
