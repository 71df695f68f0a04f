package storetest

import (
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// server is a process's own live lease, under which it claims. It lives until it is told to lapse, however slow
// the machine.
func (w *world) server(s *store.Store) lease.Ref {
	w.Helper()
	ref := w.hold(s, lease.OnceKey()).Ref()
	w.beat(s, ref)
	return ref
}

// lapsed is a server lease that has run out.
func (w *world) lapsed(s *store.Store) lease.Ref {
	w.Helper()
	ref := w.server(s)
	w.lapse(s, ref)
	return ref
}

// at is the nth tick of the last hour, by the store's clock.
func (w *world) at(n int) time.Time {
	w.Helper()
	if w.hour.IsZero() {
		w.hour = w.now(w.s).Add(-time.Hour).Truncate(time.Minute)
	}
	return w.hour.Add(time.Duration(n) * time.Minute)
}

func (w *world) claim(s *store.Store, req tick.ClaimRequest) tick.Answer {
	w.Helper()
	answers, err := s.Ticks.Claim(w.ctx, []tick.ClaimRequest{req})
	w.check("Claim", err)
	if len(answers) != 1 {
		w.Fatalf("Claim of one: %d answers", len(answers))
	}
	return answers[0]
}

// won claims a tick that is free.
func (w *world) won(s *store.Store, job string, at time.Time, ref lease.Ref) {
	w.Helper()
	a := w.claim(s, tick.ClaimRequest{Job: job, At: at, Lease: ref})
	if a.Status != tick.Won {
		w.Fatalf("Claim(%s, %v): %v, want won", job, at, a.Status)
	}
}

func (w *world) start(s *store.Store, req tick.StartRequest) tick.Answer {
	w.Helper()
	return w.startAll(s, []tick.StartRequest{req})[0]
}

func (w *world) startAll(s *store.Store, reqs []tick.StartRequest) []tick.Answer {
	w.Helper()
	for i := range reqs {
		reqs[i].Run.Owner, reqs[i].Run.Token = reqs[i].Lease.Owner, reqs[i].Lease.Token
	}
	answers, err := s.Ticks.Start(w.ctx, reqs)
	w.check("Start", err)
	if len(answers) != len(reqs) {
		w.Fatalf("Start of %d: %d answers", len(reqs), len(answers))
	}
	return answers
}

// started claims a tick under ref, starts it under the same, and returns its run.
func (w *world) started(s *store.Store, job string, at time.Time, ref lease.Ref) run.Record {
	w.Helper()
	w.won(s, job, at, ref)
	r := run.Record{ID: run.NewID(), Job: job, Tick: at, Host: "h", PID: 7}
	if a := w.start(s, tick.StartRequest{Run: r, Claim: ref, Lease: ref}); a.Status != tick.Won {
		w.Fatalf("Start(%s, %v): %v, want won", job, at, a.Status)
	}
	r.Owner, r.Token = ref.Owner, ref.Token
	return r
}

// end is r's report, made without anything else.
func end(r run.Record, o run.Outcome) run.Record {
	r.Outcome = o
	return r
}

func (w *world) close(s *store.Store, req tick.CloseRequest) tick.Answer {
	w.Helper()
	answers, err := s.Ticks.Close(w.ctx, []tick.CloseRequest{req})
	w.check("Close", err)
	if len(answers) != 1 {
		w.Fatalf("Close of one: %d answers", len(answers))
	}
	return answers[0]
}

func (w *world) take(s *store.Store, req tick.TakeRequest) tick.Answer {
	w.Helper()
	a, err := s.Ticks.Take(w.ctx, req)
	w.check("Take", err)
	return a
}

// row is a tick as it now stands; the zero Tick where there is none.
func (w *world) row(job string, at time.Time) tick.Tick {
	w.Helper()
	rows := w.rows(history.Query{Job: job, From: at, To: at.Add(time.Microsecond)})
	for _, t := range rows {
		if t.At.Equal(at) {
			return t
		}
	}
	return tick.Tick{}
}

func (w *world) rows(q history.Query) []tick.Tick {
	w.Helper()
	rows, err := w.s.History.Ticks(w.ctx, q)
	w.check("Ticks", err)
	return rows
}

// run is a run as history tells it; the zero Record where there is none.
func (w *world) run(id string) run.Record {
	w.Helper()
	runs, err := w.s.History.Runs(w.ctx, history.Query{RunID: id})
	w.check("Runs", err)
	if len(runs) == 0 {
		return run.Record{}
	}
	if len(runs) > 1 || runs[0].ID != id {
		w.Fatalf("Runs of %s: %+v", id, runs)
	}
	return runs[0]
}

// orphans are those that the first limit unfinished ticks of a job have, or of all jobs with "".
func (w *world) orphans(s *store.Store, job string, limit int) []tick.Tick {
	w.Helper()
	return w.look(s, tick.Look{Job: job, Limit: limit}).Ticks
}

func (w *world) look(s *store.Store, l tick.Look) tick.Found {
	w.Helper()
	found, err := s.Ticks.Orphans(w.ctx, l)
	w.check("Orphans", err)
	return found
}

func (w *world) owed(s *store.Store, l tick.OwedLook) tick.Found {
	w.Helper()
	found, err := s.Ticks.Owed(w.ctx, l)
	w.check("Owed", err)
	return found
}

// setJob registers a definition, or with "" removes the job.
func (w *world) setJob(s *store.Store, name, definition string, since time.Time) tick.Job {
	w.Helper()
	jobs, err := s.Ticks.SetJobs(w.ctx, []tick.JobRequest{{Name: name, Definition: definition, Since: since, Remove: definition == ""}})
	w.check("SetJobs", err)
	if len(jobs) != 1 {
		w.Fatalf("SetJobs of one: %d answers", len(jobs))
	}
	return jobs[0]
}
