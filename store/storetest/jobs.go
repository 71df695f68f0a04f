package storetest

import (
	"slices"
	"time"

	"github.com/dibs-run/dibs/tick"
)

var jobPromises = []promise{
	{"a definition has a generation, a beginning and a mark", defineJobs},
	{"the same definition changes nothing", sameDefinition},
	{"a job can be removed and come back", removeJob},
	{"concurrent registrations of one definition are one", registerTogether},
	{"jobs are listed by a literal prefix", listJobs},
}

func (w *world) job(name string) tick.Job {
	w.Helper()
	jobs, err := w.s.Ticks.Jobs(w.ctx, name)
	w.check("Jobs", err)
	for _, j := range jobs {
		if j.Name == name {
			return j
		}
	}
	return tick.Job{}
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
		jobs, err := w.s.Ticks.Jobs(w.ctx, prefix)
		w.check("Jobs", err)
		var got []string
		for _, j := range jobs {
			got = append(got, j.Name)
		}
		if !slices.Equal(got, want) {
			w.Errorf("Jobs(%q): %q, want %q", prefix, got, want)
		}
	}
}
