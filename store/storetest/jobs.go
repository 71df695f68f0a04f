package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/tick"
)

var jobPromises = []promise{
	{"a definition has a generation, a beginning and a mark", defineJobs},
	{"the same definition changes nothing", sameDefinition},
	// Holds: T11.
	{"a changed definition keeps what the one before it left open", keepPast},
	// Holds: T11.
	{"a change is made of the generation that it was made for", changeOfOne},
	// Holds: T11.
	{"a removal is made of the generation that it was made for", removalOfOne},
	// Holds: T11.
	{"a job that was forgotten is made anew, with its generation and mark", forgottenJob},
	{"a job can be removed and come back", removeJob},
	{"concurrent registrations of one definition are one", registerTogether},
	{"jobs are listed by a literal prefix", listJobs},
	// Holds: T15.
	{"the registry is read in steps", manyJobs},
	// Holds: promise 26.
	{"of a definition that is too long, no more is read than says so", longDefinition},
}

func (w *world) job(name string) tick.Job {
	w.Helper()
	jobs := w.registered(tick.JobQuery{Names: []string{name}})
	if len(jobs) == 0 {
		return tick.Job{}
	}
	return jobs[0]
}

func (w *world) registered(q tick.JobQuery) []tick.Job {
	w.Helper()
	jobs, err := w.s.Ticks.Jobs(w.ctx, q)
	w.check("Jobs", err)
	return jobs
}

func defineJobs(w *world) {
	const micro = time.Microsecond
	definition := `{"cron":"15 4 1 * *","zone":"Europe/Zürich","x":"\\ 🐘 %"}`
	want := tick.Job{Name: "j", Definition: definition, Generation: 1, Since: w.at(10), Mark: w.at(10).Add(-micro)}
	equal(w, "a new job", w.setJob(w.s, "j", definition, w.at(10)), want)
	equal(w, "as another process lists it", w.job("j"), want)

	want.Definition, want.Generation, want.Since, want.Mark = "{}", 2, w.at(20), w.at(20).Add(-micro)
	equal(w, "a changed definition", w.setJob(w.process(), "j", "{}", w.at(20)), want)
	// The mark never goes back: those ticks are settled.
	want.Definition, want.Generation, want.Since = "{ }", 3, w.at(15)
	equal(w, "one with an earlier beginning", w.setJob(w.s, "j", "{ }", w.at(15)), want)

	before := w.now(w.s)
	got := w.setJob(w.s, "now", "{}", time.Time{})
	between(w, "the beginning where none is given", before, got.Since, w.now(w.s))
	sameTime(w, "its mark", got.Mark, got.Since.Add(-micro))
}

func sameDefinition(w *world) {
	first := w.setJob(w.s, "j", `{"a":1}`, w.at(10))
	equal(w, "the same with a later beginning", w.setJob(w.process(), "j", `{"a":1}`, w.at(20)), first)
	equal(w, "the same with none", w.setJob(w.s, "j", `{"a":1}`, time.Time{}), first)
	// The store only compares: equal in meaning is not the same.
	equal(w, "another spelling", w.setJob(w.s, "j", `{"a": 1}`, w.at(20)).Generation, 2)
}

// change registers a definition of j with what the one before it leaves open.
func (w *world) change(definition string, since time.Time, past string, of int64) tick.Job {
	w.Helper()
	jobs, err := w.s.Ticks.SetJobs(w.ctx, []tick.JobRequest{
		{Name: "other", Definition: definition, Since: since}, {Name: "j", Definition: definition, Since: since, Past: past, Of: of}})
	w.check("SetJobs", err)
	return jobs[1]
}

func keepPast(w *world) {
	first := w.setJob(w.s, "j", "{}", w.at(0))
	first.Until = w.at(10)
	past := tick.EncodePast([]tick.Job{first})
	want := tick.Job{Name: "j", Definition: `{"é":"\\ 🐘 %"}`, Generation: 2, Since: w.at(10), Mark: first.Mark, Past: past}
	equal(w, "the change leaves the mark", w.change(want.Definition, w.at(10), past, 1), want)
	equal(w, "as another process lists it", w.job("j"), want)
	all, err := w.job("j").Definitions()
	w.check("Definitions", err)
	equal(w, "definitions", len(all), 2)
	equal(w, "the one that ended", all[0], tick.Job{Name: "j", Definition: "{}", Generation: 2, Since: w.at(0), Until: w.at(10), Mark: first.Mark})

	// What it left open can still be claimed, under the generation that is in force.
	server := w.server(w.s)
	a := w.claim(w.s, tick.ClaimRequest{Job: "j", At: w.at(5), Generation: 2, Lease: server})
	equal(w, "a claim of a tick of the past", a.Status, tick.Won)

	// Whoever still settles by the definition that ended is refused, although the mark is as it was.
	settle := tick.SettleRequest{Job: "j", From: first.Mark, To: w.at(9), Generation: 1}
	stale, err := w.s.Ticks.Settle(w.ctx, settle)
	w.check("Settle", err)
	equal(w, "a settling by the generation before", stale.Status, tick.Taken)
	equal(w, "its mark", w.job("j").Mark, first.Mark)

	want.Definition, want.Generation, want.Since, want.Mark, want.Past = "{}", 3, w.at(20), w.at(20).Add(-time.Microsecond), ""
	equal(w, "a change that leaves nothing", w.change("{}", w.at(20), "", 2), want)
	w.change("{2}", w.at(30), past, 3)
	equal(w, "a removal forgets it", w.setJob(w.s, "j", "", w.at(40)).Past, "")
	equal(w, "a new job's mark is before its beginning", w.setJob(w.s, "new", "{}", w.at(10)).Mark.Equal(w.at(10).Add(-time.Microsecond)), true)
}

func changeOfOne(w *world) {
	first := w.setJob(w.s, "j", "{}", w.at(0))
	second := w.change("{2}", w.at(10), "", 1)
	equal(w, "the second generation", second.Generation, 2)
	first.Until = w.at(20)
	past := tick.EncodePast([]tick.Job{first})
	equal(w, "a change of a generation that is no more", w.change("{3}", w.at(20), past, 1), second)
	equal(w, "of one that is not there yet", w.change("{3}", w.at(20), past, 3), second)
	equal(w, "of whatever generation", w.change("{3}", w.at(20), "", 0).Generation, 3)
	removed := w.setJob(w.s, "j", "", w.at(30))
	equal(w, "a change of what was removed", w.change("{4}", w.at(40), past, 3), removed)
}

func removalOfOne(w *world) {
	remove := func(of int64) tick.Job {
		w.Helper()
		jobs, err := w.s.Ticks.SetJobs(w.ctx, []tick.JobRequest{
			{Name: "none", Remove: true, Of: of}, {Name: "j", Since: w.at(30), Remove: true, Of: of}})
		w.check("SetJobs", err)
		return jobs[1]
	}
	first := w.setJob(w.s, "j", "{}", w.at(0))
	first.Until = w.at(10)
	past := tick.EncodePast([]tick.Job{first})
	second := w.change("{2}", w.at(10), past, 1)
	equal(w, "a removal of a generation that is no more", remove(1), second)
	equal(w, "of one that is not there yet", remove(3), second)
	equal(w, "as another process lists it", w.job("j"), second)
	removed := second
	removed.Removed, removed.Past = w.at(30), ""
	equal(w, "of the one that is there", remove(2), removed)
	equal(w, "repeated", remove(2), removed)
	equal(w, "of one that was not registered", w.job("none"), tick.Job{})
}

func forgottenJob(w *world) {
	again := func(name string, of int64) tick.Job {
		w.Helper()
		jobs, err := w.s.Ticks.SetJobs(w.ctx, []tick.JobRequest{{Name: "first", Definition: "{}", Since: w.at(0)},
			{Name: name, Definition: `{"a":1}`, Since: w.at(0), Mark: w.at(30), Of: of}})
		w.check("SetJobs", err)
		return jobs[1]
	}
	want := tick.Job{Name: "j", Definition: `{"a":1}`, Generation: 5, Since: w.at(0), Mark: w.at(30)}
	equal(w, "one that is not there", again("j", 4), want)
	equal(w, "as another process lists it", w.job("j"), want)
	want.Name, want.Generation = "of the first generation", 1
	equal(w, "one of the first generation", again(want.Name, 0), want)

	other := w.setJob(w.s, "other", "{}", w.at(10))
	equal(w, "one that is there", again("other", 0), other)
	equal(w, "of the generation that it has", again("other", 1), other)
	removed := w.setJob(w.s, "other", "", w.at(40))
	equal(w, "one that was removed", again("other", 0), removed)
	equal(w, "a change afterwards is the next generation", w.setJob(w.s, "j", "{}", w.at(50)).Generation, 6)
}

func removeJob(w *world) {
	equal(w, "Remove of what is not registered", w.setJob(w.s, "none", "", w.at(0)).Generation, 0)
	equal(w, "it is registered by that", w.job("none"), tick.Job{})

	first := w.setJob(w.s, "j", "{}", w.at(0))
	removed := w.setJob(w.s, "j", "", w.at(10))
	equal(w, "removed is zero", removed.Removed.IsZero(), false)
	equal(w, "the definition is kept", removed.Definition, first.Definition)
	equal(w, "it is still listed", w.job("j"), removed)
	equal(w, "a repeated Remove", w.setJob(w.s, "j", "", w.at(11)), removed)

	back := w.setJob(w.s, "j", "{}", w.at(30))
	equal(w, "removed is zero when it is back", back.Removed.IsZero(), true)
	equal(w, "its generation is another", back.Generation > first.Generation, true)
	sameTime(w, "its beginning", back.Since, w.at(30))
	sameTime(w, "its mark", back.Mark, w.at(30).Add(-time.Microsecond))
}

func registerTogether(w *world) {
	other := w.process()
	at := w.at(0)
	var jobs [8]tick.Job
	together(8, func(i int) {
		s := w.s
		if i%2 == 1 {
			s = other
		}
		got, err := s.Ticks.SetJobs(w.ctx, []tick.JobRequest{{Name: "j", Definition: "{}", Since: at.Add(time.Duration(i) * time.Second)}})
		if err != nil || len(got) != 1 {
			w.Errorf("SetJobs: %v, %v", got, err)
			return
		}
		jobs[i] = got[0]
	})
	for _, j := range jobs {
		equal(w, "what each is told", j, jobs[0])
	}
	equal(w, "the generation", w.job("j").Generation, 1)
}

func listJobs(w *world) {
	names := []string{"app/a", "app/b", "app_c", "app%d", "App/e", "app/é", "b"}
	var reqs []tick.JobRequest
	for _, n := range names {
		reqs = append(reqs, tick.JobRequest{Name: n, Definition: n})
	}
	jobs, err := w.s.Ticks.SetJobs(w.ctx, reqs)
	w.check("SetJobs", err)
	for i, j := range jobs {
		equal(w, "SetJobs answers in order", j.Name, names[i])
	}
	for prefix, want := range map[string][]string{
		"": {"App/e", "app%d", "app/a", "app/b", "app/é", "app_c", "b"}, "app/": {"app/a", "app/b", "app/é"},
		"app_": {"app_c"}, "app%": {"app%d"}, "app": {"app%d", "app/a", "app/b", "app/é", "app_c"}, "c": nil,
	} {
		if got := jobNames(w.registered(tick.JobQuery{Prefix: prefix})); !slices.Equal(got, want) {
			w.Errorf("Jobs(%q): %q, want %q", prefix, got, want)
		}
		for _, limit := range []int{1, 2} { // step by step
			var got []string
			for q := (tick.JobQuery{Prefix: prefix, Limit: limit}); ; {
				page := jobNames(w.registered(q))
				if got = append(got, page...); len(page) < limit {
					break
				}
				q.After = page[limit-1]
			}
			if !slices.Equal(got, want) {
				w.Errorf("Jobs(%q), %d at a time: %q, want %q", prefix, limit, got, want)
			}
		}
	}
	some := tick.JobQuery{Names: []string{"b", "app/é", "nobody", "app/a", "app/", "b"}}
	if got, want := jobNames(w.registered(some)), []string{"app/a", "app/é", "b"}; !slices.Equal(got, want) {
		w.Errorf("Jobs of these names: %q, want %q", got, want)
	}
}

// longDefinition: whoever can write into the store can write 100 MB, which every reader of the registry would pay for.
func longDefinition(w *world) {
	text := `{"x":"` + strings.Repeat("x", tick.MaxDefinition+1<<16) + `"}`
	w.setJob(w.s, "app/long", text, w.at(0))
	w.setJob(w.s, "app/short", "{}", w.at(0))
	for _, q := range []tick.JobQuery{{}, {Prefix: "app/"}, {Names: []string{"app/long", "app/short"}}} {
		all := w.registered(q)
		if len(all) != 2 || all[0].Definition != text[:tick.MaxDefinition+1] || all[1].Definition != "{}" {
			w.Errorf("%+v: %d jobs, and %d bytes of the first", q, len(all), len(all[0].Definition))
		}
		if _, err := job.ParseDefinition(all[0].Definition); err == nil || !strings.Contains(err.Error(), "are read") {
			w.Errorf("a definition that is too long: %v", err)
		}
	}
}

func jobNames(jobs []tick.Job) (names []string) {
	for _, j := range jobs {
		names = append(names, j.Name)
	}
	return names
}

// manyJobs: the registry is read in steps, however large it is.
func manyJobs(w *world) {
	var reqs []tick.JobRequest
	for i := range tick.MaxRows + 2 {
		reqs = append(reqs, tick.JobRequest{Name: fmt.Sprintf("app/j%04d", i), Definition: "d"})
	}
	_, err := w.s.Ticks.SetJobs(w.ctx, reqs)
	w.check("SetJobs", err)
	equal(w, "jobs in one step", len(w.registered(tick.JobQuery{})), tick.MaxRows)
	equal(w, "jobs in one step, asked for more", len(w.registered(tick.JobQuery{Prefix: "app/", Limit: 5000})), tick.MaxRows)
	all, err := tick.Registry(w.ctx, w.s.Ticks, "app/")
	w.check("Registry", err)
	equal(w, "jobs in all", len(all), len(reqs))
}
