package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A Step is one call of a contract, of each sort that there is, so that a store can count what it costs, and let it
// fail halfway. All steps are of the application "app"; whatever else there is belongs to others.
type Step struct {
	What string
	// Items is how many the call is about, and Rows how many it looks for at most.
	Items, Rows int
	// Prepare makes what the call is about.
	Prepare func()
	// Do makes the call. It may be repeated after an error.
	Do func() error
	// apart: of several parts, each of which may be done without the others.
	apart bool
	// again says that it was done before, so that it may be answered otherwise.
	again *bool
}

// page is how many rows a step looks for at most.
const page = 50

// maker makes the steps of one round, whose keys, jobs and instants no other round has.
type maker struct {
	testing.TB
	s     *store.Store
	round int
	batch int       // how many items a step names
	base  time.Time // settled up to here in the first round
	again bool
	all   []Step
}

// Steps are the steps of one round, each about ten items. Since is an instant of the store's clock, an hour ago or
// more, and the same in all rounds.
func Steps(t testing.TB, s *store.Store, since time.Time, round int) []Step {
	return (&maker{TB: t, s: s, round: round, batch: 10, base: since.Add(time.Duration(round) * 20 * time.Second)}).steps()
}

func (m *maker) steps() []Step {
	m.leases()
	m.jobs()
	m.ticks()
	m.settling()
	m.looks()
	m.histories()
	m.processes()
	m.pruning()
	return m.all
}

func (m *maker) add(what string, items int, prepare func(), do func() error) {
	m.all = append(m.all, Step{What: what, Items: items, Prepare: prepare, Do: do, again: &m.again})
}

func (m *maker) look(what string, rows int, do func() error) {
	m.all = append(m.all, Step{What: what, Items: 1, Rows: rows, Do: do, again: &m.again})
}

func (m *maker) need(what string, err error) {
	m.Helper()
	if err != nil {
		m.Fatalf("%s: %v", what, err)
	}
}

func (m *maker) at(i int) time.Time { return m.base.Add(time.Duration(i) * time.Second) }

func (m *maker) names(of string) (all []string) {
	for i := range m.batch {
		all = append(all, fmt.Sprintf("app/%s-%d-%02d", of, m.round, i))
	}
	return all
}

func (m *maker) asks(of string) (reqs []lease.AcquireRequest) {
	for _, name := range m.names(of) {
		reqs = append(reqs, m.ask(lease.Key(name)))
	}
	return reqs
}

func (m *maker) ask(key lease.Key) lease.AcquireRequest {
	return lease.AcquireRequest{Key: key, TTL: m.s.Properties.MaxTTL, Holder: lease.Holder{ID: lease.NewNonce(), Host: "h", PID: 1, Replaceable: true}}
}

func (m *maker) granted(reqs ...lease.AcquireRequest) (refs []lease.Ref) {
	m.Helper()
	r, err := m.s.Leases.Acquire(m.Context(), reqs)
	m.need("Acquire", err)
	for _, a := range r.Answers {
		if a.Status != lease.OK {
			m.Fatalf("Acquire: %v", a.Status)
		}
		refs = append(refs, a.Record.Ref())
	}
	return refs
}

// answered fails where an item of a reply has another status. An error of the call is the caller's.
func (m *maker) answered(r lease.Reply, err error, want lease.Status) error {
	m.Helper()
	for i, a := range r.Answers {
		if err == nil && a.Status != want && !m.again {
			m.Errorf("item %d: %v, want %v", i, a.Status, want)
		}
	}
	return err
}

func (m *maker) leases() {
	ctx, l := m.Context(), m.s.Leases
	var refs []lease.Ref
	var reqs []lease.AcquireRequest
	for _, x := range []struct {
		what    string
		prepare func()
		want    lease.Status
	}{
		{"keys that nobody had", func() { reqs = m.asks("new") }, lease.OK},
		{"keys that are used once", func() {
			reqs = nil
			for range m.batch {
				reqs = append(reqs, m.ask(lease.OnceKey()))
			}
		}, lease.OK},
		{"free keys", func() {
			_, err := l.Release(ctx, m.granted(m.asks("free")...))
			m.need("Release", err)
			reqs = m.asks("free")
		}, lease.OK},
		{"held keys", func() { m.granted(m.asks("held")...); reqs = m.asks("held") }, lease.Held},
	} {
		m.add("acquire "+x.what, m.batch, x.prepare, func() error {
			r, err := l.Acquire(ctx, reqs)
			return m.answered(r, err, x.want)
		})
	}
	for _, n := range []int{1, m.batch} {
		m.add(fmt.Sprintf("renew %d", n), n, func() { refs = m.granted(m.asks(fmt.Sprint("renewed", n))[:n]...) }, func() error {
			var reqs []lease.RenewRequest
			for _, ref := range refs {
				reqs = append(reqs, lease.RenewRequest{Ref: ref, TTL: m.s.Properties.MaxTTL})
			}
			r, err := l.Renew(ctx, reqs)
			return m.answered(r, err, lease.OK)
		})
		m.add(fmt.Sprintf("release %d", n), n, func() { refs = m.granted(m.asks(fmt.Sprint("released", n))[:n]...) }, func() error {
			r, err := l.Release(ctx, refs)
			return m.answered(r, err, lease.OK)
		})
	}
	m.add("release keys that are used once", m.batch, func() {
		refs = nil
		for range m.batch {
			refs = append(refs, m.granted(m.ask(lease.OnceKey()))...)
		}
	}, func() error {
		r, err := l.Release(ctx, refs)
		return m.answered(r, err, lease.OK)
	})
	one := func(of string) func() {
		return func() { refs = m.granted(m.ask(lease.Key(fmt.Sprintf("app/%s-%d", of, m.round)))) }
	}
	m.add("ask", 1, one("asked"), func() error {
		r, err := l.RequestRelease(ctx, refs[0], lease.Holder{ID: lease.NewNonce(), Host: "h"})
		return m.answered(r, err, lease.OK)
	})
	for _, now := range []bool{false, true} {
		m.add(fmt.Sprintf("break, at once: %v", now), 1, one(fmt.Sprint("broken", now)), func() error {
			r, err := l.Break(ctx, refs[0], lease.Broken{By: "me", Why: "because", Now: now})
			return m.answered(r, err, lease.OK)
		})
	}
	keys := func(of string) (keys []lease.Key) {
		for _, name := range m.names(of) {
			keys = append(keys, lease.Key(name))
		}
		return keys
	}
	m.add("read", m.batch, func() { m.granted(m.asks("read")...) }, func() error {
		r, err := l.Read(ctx, keys("read"))
		return m.answered(r, err, lease.OK)
	})
	m.add("the time", 1, nil, func() error {
		_, err := l.Read(ctx, nil)
		return err
	})
	m.add("trim", m.batch, func() { m.granted(m.asks("trimmed")...) }, func() error { return l.Trim(ctx, keys("trimmed")) })
	for _, all := range []bool{false, true} {
		m.add(fmt.Sprintf("list a prefix, all: %v", all), m.batch, func() { m.granted(m.asks(fmt.Sprint("listed", all))...) }, func() error {
			r, err := l.List(ctx, fmt.Sprintf("app/listed%v-%d-", all, m.round), all)
			if err == nil && len(r.Answers) != m.batch {
				m.Errorf("%d records, want %d", len(r.Answers), m.batch)
			}
			return err
		})
	}
	m.all = append(m.all, Step{What: "list the keys that are used once", Items: 1, Rows: 1000, again: &m.again, Prepare: func() { m.granted(m.ask(lease.OnceKey())) }, Do: func() error {
		r, err := l.List(ctx, string(lease.OnceKey()[:5]), false)
		if err == nil && len(r.Answers) == 0 {
			m.Error("no records")
		}
		return err
	}})
}

func (m *maker) register(of, definition string) (reqs []tick.JobRequest) {
	for _, name := range m.names(of) {
		reqs = append(reqs, tick.JobRequest{Name: name, Definition: definition, Since: m.base.Add(time.Microsecond)})
	}
	return reqs
}

func (m *maker) registered(of string) {
	m.Helper()
	_, err := m.s.Ticks.SetJobs(m.Context(), m.register(of, "{}"))
	m.need("SetJobs", err)
}

func (m *maker) jobs() {
	ctx, k := m.Context(), m.s.Ticks
	set := func(of string, change func(*tick.JobRequest)) func() error {
		return func() error {
			reqs := m.register(of, "{}")
			for i := range reqs {
				change(&reqs[i])
			}
			got, err := k.SetJobs(ctx, reqs)
			if err == nil && len(got) != m.batch {
				m.Errorf("%d jobs", len(got))
			}
			return err
		}
	}
	m.add("register new jobs", m.batch, nil, set("fresh", func(*tick.JobRequest) {}))
	m.add("register the same jobs", m.batch, func() { m.registered("same") }, set("same", func(*tick.JobRequest) {}))
	m.add("change jobs", m.batch, func() { m.registered("changed") }, set("changed", func(r *tick.JobRequest) { r.Definition, r.Past = "{ }", "[]" }))
	m.add("remove jobs", m.batch, func() { m.registered("removed") }, set("removed", func(r *tick.JobRequest) { r.Remove = true }))
	m.add("jobs by name", m.batch, func() { m.registered("named") }, func() error {
		got, err := k.Jobs(ctx, tick.JobQuery{Names: m.names("named")})
		if err == nil && len(got) != m.batch {
			m.Errorf("%d jobs", len(got))
		}
		return err
	})
	m.look("a page of an app's jobs", page, func() error {
		got, err := k.Jobs(ctx, tick.JobQuery{Prefix: "app/", After: "app/c", Limit: page})
		if err == nil && len(got) == 0 {
			m.Error("no jobs")
		}
		return err
	})
	for _, resume := range []bool{false, true} {
		m.add(fmt.Sprintf("pause, resume: %v", resume), 1, func() { m.registered(fmt.Sprint("paused", resume)) }, func() error {
			_, err := k.Pause(ctx, tick.PauseRequest{Job: m.names(fmt.Sprint("paused", resume))[0], By: "me", Resume: resume})
			return err
		})
	}
}

func (m *maker) won(a []tick.Answer, err error) error {
	m.Helper()
	if i := slices.IndexFunc(a, func(a tick.Answer) bool { return a.Status != tick.Won }); err == nil && i >= 0 {
		m.Errorf("item %d: %v, %+v", i, a[i].Status, a[i].Tick)
	}
	return err
}

func (m *maker) wonOne(a tick.Answer, err error) error {
	m.Helper()
	return m.won([]tick.Answer{a}, err)
}

// claims asks for the first tick of each of the jobs of a name, under a lease of its own.
func (m *maker) claims(of string) (reqs []tick.ClaimRequest) {
	m.Helper()
	m.registered(of)
	ref := m.granted(m.ask(lease.OnceKey()))[0]
	for _, name := range m.names(of) {
		reqs = append(reqs, tick.ClaimRequest{Job: name, At: m.at(1), Lease: ref, Generation: 1})
	}
	return reqs
}

func (m *maker) claimed(of string) []tick.ClaimRequest {
	m.Helper()
	reqs := m.claims(of)
	m.need("Claim", m.won(m.s.Ticks.Claim(m.Context(), reqs)))
	return reqs
}

func starts(reqs []tick.ClaimRequest) (begun []tick.StartRequest) {
	for _, c := range reqs {
		r := run.Record{ID: run.NewID(), Job: c.Job, Tick: c.At, Owner: c.Lease.Owner, Token: c.Lease.Token, Host: "h"}
		begun = append(begun, tick.StartRequest{Run: r, Claim: c.Lease, Lease: c.Lease})
	}
	return begun
}

func (m *maker) started(of string) []tick.StartRequest {
	m.Helper()
	reqs := starts(m.claimed(of))
	m.need("Start", m.won(m.s.Ticks.Start(m.Context(), reqs)))
	return reqs
}

func (m *maker) ticks() {
	ctx, k := m.Context(), m.s.Ticks
	var claims []tick.ClaimRequest
	var begun []tick.StartRequest
	m.add("claim", m.batch, func() { claims = m.claims("claimed") }, func() error { return m.won(k.Claim(ctx, claims)) })
	m.add("claim and close", m.batch, func() {
		claims = m.claims("skipped")
		for i := range claims {
			claims[i].Outcome, claims[i].Reason = run.Skipped, run.ReasonWindow
		}
	}, func() error { return m.won(k.Claim(ctx, claims)) })
	m.add("start", m.batch, func() { begun = starts(m.claimed("started")) }, func() error { return m.won(k.Start(ctx, begun)) })
	m.add("start without a tick", m.batch, func() {
		begun = starts(m.claims("ticking"))
		for i := range begun {
			begun[i].Run.Tick = time.Time{}
		}
	}, func() error { return m.won(k.Start(ctx, begun)) })
	m.add("close", m.batch, func() { begun = m.started("closed") }, func() error {
		var reqs []tick.CloseRequest
		for i, b := range begun {
			r := tick.CloseRequest{Run: b.Run, Claim: b.Lease}
			if r.Run.Outcome = run.Succeeded; i == m.batch-1 {
				r.Release = b.Lease
			}
			reqs = append(reqs, r)
		}
		return m.won(k.Close(ctx, reqs))
	})
	m.add("close claims", m.batch, func() { claims = m.claimed("dropped") }, func() error {
		var reqs []tick.CloseRequest
		for _, c := range claims {
			reqs = append(reqs, tick.CloseRequest{Run: run.Record{Job: c.Job, Tick: c.At, Outcome: run.Missed}, Claim: c.Lease})
		}
		return m.won(k.Close(ctx, reqs))
	})
	var mine lease.Ref
	abandon := func(ref lease.Ref) {
		_, err := m.s.Leases.Release(ctx, []lease.Ref{ref})
		m.need("Release", err)
		mine = m.granted(m.ask(lease.OnceKey()))[0]
	}
	m.add("take a claim", 1, func() { claims = m.claimed("lapsed"); abandon(claims[0].Lease) }, func() error {
		return m.wonOne(k.Take(ctx, tick.TakeRequest{Job: claims[0].Job, At: claims[0].At, From: claims[0].Lease, Lease: mine}))
	})
	m.add("take a run", 1, func() { begun = m.started("crashed"); abandon(begun[0].Lease) }, func() error {
		return m.wonOne(k.Take(ctx, tick.TakeRequest{Job: begun[0].Run.Job, At: begun[0].Run.Tick, From: begun[0].Lease, Lease: mine, Rerun: true}))
	})
}

// missed are settled rows: the first of a range, the others of one tick each.
func (m *maker) missed(from time.Time) (rows []tick.Tick) {
	for i := range m.batch {
		at := from.Add(time.Duration(i+1) * time.Second)
		row := tick.Tick{At: at, Count: 1, State: tick.Closed, Outcome: run.Missed}
		if i == 0 {
			row.Through, row.Count = at.Add(500*time.Millisecond), 2
		}
		rows = append(rows, row)
	}
	return rows
}

func (m *maker) settling() {
	ctx, k := m.Context(), m.s.Ticks
	settle := func(job string, from time.Time) error {
		return m.wonOne(k.Settle(ctx, tick.SettleRequest{Job: job, From: from, To: from.Add(time.Duration(m.batch+1) * time.Second), Generation: 1, Rows: m.missed(from)}))
	}
	m.add("settle", m.batch, func() { m.registered("settled") }, func() error { return settle(m.names("settled")[0], m.base) })
	var whole tick.Tick
	m.add("split", 2, func() {
		m.registered("split")
		m.need("Settle", settle(m.names("split")[0], m.base))
		whole = m.missed(m.base)[0]
		whole.Job = m.names("split")[0]
	}, func() error {
		return m.wonOne(k.Split(ctx, tick.SplitRequest{Row: whole, Parts: []tick.Tick{
			{At: whole.At, Count: 1}, {At: whole.Through, Count: 1}}}))
	})
	var now time.Time
	m.add("unsettle", m.batch, func() {
		var err error
		now, err = m.s.Now(ctx)
		m.need("Now", err)
		now = now.Add(time.Minute).Truncate(time.Second)
		reqs := m.register("ahead", "{}")
		for i := range reqs {
			reqs[i].Since = now.Add(time.Microsecond)
		}
		_, err = k.SetJobs(ctx, reqs)
		m.need("SetJobs", err)
		m.need("Settle", settle(m.names("ahead")[0], now))
	}, func() error {
		return m.wonOne(k.Unsettle(ctx, tick.UnsettleRequest{Job: m.names("ahead")[0], From: now.Add(time.Duration(m.batch+1) * time.Second), To: now, Rows: m.missed(now)}))
	})
}

func (m *maker) looks() {
	ctx, k := m.Context(), m.s.Ticks
	for what, l := range map[string]tick.Look{
		"of a job": {Job: m.names("started")[0]}, "of an app": {Prefix: "app/"}, "of all": {},
	} {
		m.look("unfinished ticks "+what, page, func() error {
			l.Limit = page
			_, err := k.Orphans(ctx, l)
			return err
		})
	}
	m.look("what is owed", page, func() error {
		f, err := k.Owed(ctx, tick.OwedLook{App: "app", From: m.base.Add(-time.Hour), Limit: page})
		if err == nil && len(f.Ticks) == 0 {
			m.Error("nothing is owed")
		}
		return err
	})
}
