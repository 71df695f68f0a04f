package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// A yearPlan is how long a fleet is watched, and how rough its life is.
type yearPlan struct {
	life   time.Duration
	margin lease.Margin
	every  time.Duration // of its most frequent job
	bursts int           // in one of so many versions of the manifest a job fires every second
	calm   time.Duration // between two faults, on average
	rest   time.Duration // how long it is left alone at the end, twice
	mute   bool          // what servers say last to the store that they share is lost
}

// A fleet keeps its promises under all faults at once: servers that vanish, are stopped and wake late, are cut off,
// and whose clocks are wrong; stores that refuse, that are silent, that carry out late, whose clock steps; manifests
// that change from server to server; pauses. DIBS_TEST_SEED names another seed.
// Holds: promises 8, 10.
func TestAFleetThroughEverything(t *testing.T) {
	for _, seed := range yearSeeds(t, 1, 14) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			synctest.Test(t, func(t *testing.T) {
				liveThrough(t, seed, yearPlan{life: 2 * time.Hour, margin: lease.MarginFor(lease.DefaultTTL), every: 15 * time.Second, bursts: 5, calm: 3 * time.Minute, rest: 20 * time.Minute})
			})
		})
	}
}

// yearMargin makes half a year affordable: servers look after each other every 96 seconds rather than
// every three. All else is in proportion, or as ever.
var yearMargin = lease.Margin{TTL: 8 * time.Minute, Heartbeat: time.Minute, RPCTimeout: 2 * time.Second,
	LostGrace: time.Minute, Kill: 30 * time.Second, Rho: 0.01}

// The same through a whole year with about two million ticks (DIBS_TEST_YEAR=1: it takes a quarter of an hour
// of two cores, and 10 GiB, of which what the store keeps for 90 days is a third), whose halves are lived side
// by side; in the long rounds (DIBS_TEST_LONG=1) through 20 days of each; otherwise through the two days round
// a change of the clocks.
// Holds: promises 8, 10.
func TestAFleetThroughAYear(t *testing.T) {
	year, long := os.Getenv("DIBS_TEST_YEAR") != "", testsize.Long()
	for _, seed := range yearSeeds(t, 3) {
		begins, days, bursts := []int{85}, 2, 5
		if long {
			days = testsize.Of(days, 20)
			begins = []int{85 - days/2, 303 - 3*days/4} // the clocks change on the days 85, 92 and 302
		}
		if year {
			begins, days, bursts = []int{0, 183}, 183, 40
		}
		for _, begin := range begins {
			t.Run(fmt.Sprintf("seed %d from day %d", seed, begin), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Duration(begin) * 24 * time.Hour)
					liveThrough(t, seed, yearPlan{life: time.Duration(days) * 24 * time.Hour, margin: yearMargin, every: 40 * time.Second, bursts: bursts, calm: 2 * time.Hour, rest: time.Hour})
				})
			})
		}
	}
}

func yearSeeds(t *testing.T, seeds ...uint64) []uint64 {
	if v := os.Getenv("DIBS_TEST_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{n}
	}
	return seeds
}

// liveThrough is a fleet's life, and the judgement of it.
func liveThrough(t *testing.T, seed uint64, plan yearPlan) {
	begun := time.Now()
	f := newFleet(t, seed, plan.margin, 5)
	kinds := yearKinds(plan.every, plan.bursts)
	f.manifest = func(version int) []*yearJob { return f.yearManifest(kinds, version) }
	rng := rand.New(rand.NewPCG(seed, 4))
	time.Sleep(1500 * time.Millisecond) // between two ticks
	for _, m := range f.machines {
		m.skew = time.Duration(rng.Int64N(int64(6*time.Minute))) - 3*time.Minute
		m.up()
		time.Sleep(upTo(rng, 40*time.Second))
	}
	fate := f.fates(kinds, rng)
	end := begun.Add(plan.life)
	collected := time.Now()
	for time.Now().Before(end) {
		time.Sleep(time.Duration(rng.ExpFloat64() * float64(plan.calm)))
		fate()
		if time.Since(collected) > 20*24*time.Hour {
			collected = time.Now()
			t.Logf("%s are lived", collected.Sub(begun).Round(time.Hour))
			for _, y := range f.books() {
				y.collect(y.now().Add(-3 * 24 * time.Hour))
			}
		}
	}
	f.end(t, kinds, plan, begun)
}

// end lets the fleet, which is left alone now, end what it has begun, stops it, and judges it.
func (f *yearFleet) end(t *testing.T, kinds []kind, plan yearPlan, begun time.Time) {
	f.heal()
	for _, k := range kinds {
		f.resume(k.key(), k.within())
	}
	time.Sleep(plan.rest) // all is settled by then
	f.retire()
	time.Sleep(plan.rest)
	f.awaitRuns(2 * longest(kinds)) // behind the longest run one may wait that is as long
	for _, m := range f.machines {
		s := m.out()
		s.Cut(plan.mute)
		s.shut()
	}
	f.ending.Wait()
	time.Sleep(time.Minute + f.margin.TTL) // what is on its way arrives, and where a release was lost the lease lapses
	f.judge(t, kinds, time.Since(begun))
}

// awaitRuns waits until every tick that was claimed has ended, which takes no longer than most: a run that goes on is
// let go on, and one that waits for it (Concurrency Wait) has its turn then. Were the servers stopped sooner, nobody
// would be left to take its claim over.
func (f *yearFleet) awaitRuns(most time.Duration) {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Minute) {
		if !slices.ContainsFunc(f.books(), (*yearBook).busy) {
			return
		}
	}
}

// A tick that waits behind a long run has its turn once that has ended, also when its job is gone from the manifest
// by then.
func TestAWaitingTickHasItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, plan := time.Now(), yearPlan{rest: 20 * time.Minute}
		f := newFleet(t, 1, lease.MarginFor(lease.DefaultTTL), 2)
		k := kind{name: "long", exprs: [][]string{{"*/6 * * * *"}}, takes: 80 * time.Minute,
			policy: func(p *job.Policy) { p.Concurrency = job.Wait }}
		f.manifest = func(version int) []*yearJob {
			all := f.yearManifest([]kind{k}, version)
			for _, y := range all {
				y.work = func(time.Time, int) labour { return labour{takes: k.takes} }
			}
			return all
		}
		time.Sleep(1500 * time.Millisecond)
		for _, m := range f.machines {
			m.up()
		}
		time.Sleep(20 * time.Minute)
		f.end(t, []kind{k}, plan, begun)
		if f.shared.works != 2 {
			t.Errorf("%d runs: one that was at work, and one that waited for it, were to end", f.shared.works)
		}
	})
}

// A server gives up its lease once, when it ends. Where that is lost, the lease lapses.
func TestALeaseWhoseReleaseIsLostLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		f := newFleet(t, 1, yearMargin, 2)
		kinds := yearKinds(40*time.Second, 5)
		f.manifest = func(version int) []*yearJob { return f.yearManifest(kinds, version) }
		time.Sleep(1500 * time.Millisecond)
		for _, m := range f.machines {
			m.up()
		}
		time.Sleep(20 * time.Minute)
		f.end(t, kinds, yearPlan{rest: time.Hour, mute: true}, begun)
	})
}

// heal ends all faults, and has every machine serve the latest manifest.
func (f *yearFleet) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	version := 0
	for _, y := range f.books() {
		y.server.Stop(false)
		y.server.Down(false)
	}
	for _, m := range f.machines {
		version = max(version, m.version)
	}
	for _, m := range f.machines {
		m.version = version
		if m.now == nil {
			m.boot()
			continue
		}
		m.now.Stop(false)
		m.now.Cut(false)
		m.now.reload()
	}
}

func (f *yearFleet) judge(t *testing.T, kinds []kind, lived time.Duration) {
	reruns := map[string]bool{}
	for _, k := range kinds {
		p := job.DefaultPolicy(true)
		k.policy(&p)
		reruns[k.key()] = p.OnCrash == job.CrashRerun
	}
	ticks, works, excused, all := 0, 0, 0, map[run.Outcome]int{}
	for _, y := range f.books() {
		y.nothingLeft()
		y.collect(y.now().Add(time.Hour))
		n, outcomes := y.judge(reruns)
		for o, n := range outcomes {
			all[o] += n
		}
		ticks, works, excused = ticks+n, works+y.works, excused+y.excused
	}
	for _, m := range f.machines {
		for scope, s := range m.spools {
			if s.Len() > 0 {
				t.Errorf("the spool of host-%d for %s keeps %d items", m.n, scope, s.Len())
			}
		}
	}
	t.Logf("seed %d: %s, %d ticks, %d pieces of work, %v; faults: %v; %d overlaps after a step of the store's clock; what was settled ahead of it was taken back %d times", f.seed, lived.Round(time.Hour), ticks, works, all, f.dealt, excused, f.shared.unsettled)
	if t.Failed() {
		t.Logf("again with DIBS_TEST_SEED=%d", f.seed)
	}
}

// fates returns what, each time it is called, does something to the fleet.
func (f *yearFleet) fates(kinds []kind, rng *rand.Rand) func() {
	version := 0
	// rarely is a time up to most, and now and then one up to long.
	rarely := func(n int, most, long time.Duration) time.Duration {
		if rng.IntN(n) == 0 {
			most = long
		}
		return upTo(rng, most)
	}
	// during does something to a server for a while.
	during := func(m *machine, d time.Duration, do func(*server, bool)) {
		s := m.now
		m.busy = true
		do(s, true)
		time.AfterFunc(d, func() {
			do(s, false)
			f.mu.Lock()
			m.busy = false
			f.mu.Unlock()
		})
	}
	crash := func(m *machine) {
		s := m.now
		m.now, m.busy = nil, true
		s.Kill()
		s.stop()
		time.AfterFunc(rarely(10, 3*time.Minute, 5*time.Hour), m.up)
	}
	restart := func(m *machine) {
		s, down := m.now, upTo(rng, time.Minute)
		m.now, m.busy = nil, true
		f.ending.Go(func() { s.shut(); time.Sleep(down); m.up() })
	}
	stop := func(m *machine) {
		during(m, rarely(5, 45*time.Second, 20*time.Minute), (*server).Stop)
	}
	cut := func(m *machine) {
		during(m, rarely(5, time.Minute, 30*time.Minute), (*server).Cut)
	}
	outage := func(*machine) {
		d, server := rarely(6, 30*time.Second, 40*time.Minute), f.shared.server
		do := server.Stop
		if rng.IntN(2) == 0 {
			do = server.Down
		}
		do(true)
		time.AfterFunc(d, func() { do(false) })
	}
	deploy := func(*machine) {
		version++
		v, gap, reload := version, upTo(rng, 2*time.Minute), rng.IntN(2) == 0
		order := rng.Perm(len(f.machines))
		f.ending.Go(func() {
			for _, i := range order {
				f.machines[i].deploy(v, reload)
				time.Sleep(gap)
			}
		})
	}
	pause := func(m *machine) {
		k := kinds[rng.IntN(len(kinds))]
		backend, d := m.now.backends[k.within()], upTo(rng, 3*time.Hour)
		req := tick.PauseRequest{Job: k.key(), By: "the plan", Resume: rng.IntN(3) == 0}
		if !req.Resume && rng.IntN(2) == 0 {
			req.Until = time.Now().Add(d)
		}
		f.ending.Go(func() {
			if _, err := backend.Pause(context.Background(), req); err == nil && !req.Resume && req.Until.IsZero() {
				time.AfterFunc(d, func() { f.resume(req.Job, k.within()) })
			}
		})
	}
	sign := func() time.Duration { return time.Duration(1 - 2*rng.IntN(2)) }
	step := func(*machine) {
		d := upTo(rng, 8*time.Second) - 4*time.Second
		switch rng.IntN(8) {
		case 0:
			d = upTo(rng, 90*time.Minute) - 45*time.Minute
		case 1, 2:
			d = -f.shared.offset // it is set right
		case 3:
			d = sign() * 20 * time.Second
		case 4:
			d = sign() * time.Hour
		}
		f.shared.step(d)
	}
	glitch := func(*machine) {
		d := sign() * []time.Duration{20 * time.Second, time.Hour, 100 * 24 * time.Hour}[rng.IntN(3)]
		f.shared.step(d)
		time.AfterFunc(10*time.Second, func() { f.shared.step(-d) })
	}
	trigger := func(m *machine) {
		jobs := f.manifest(m.version)
		s, y := m.process(), jobs[rng.IntN(len(jobs))]
		f.ending.Go(func() { s.trigger(y) })
		if rng.IntN(4) == 0 {
			time.AfterFunc(upTo(rng, 20*time.Second), s.Kill)
		} else {
			time.AfterFunc(upTo(rng, 30*time.Minute), s.stop)
		}
	}
	all := []struct {
		name string
		odds int
		do   func(*machine)
	}{{"trigger", 2, trigger}, {"crash", 3, crash}, {"restart", 1, restart}, {"stop", 3, stop}, {"cut", 2, cut},
		{"outage", 2, outage}, {"deploy", 1, deploy}, {"pause", 2, pause}, {"step", 1, step}, {"glitch", 1, glitch}}
	var lots []int // which of all, as often as its odds
	for i, one := range all {
		lots = append(lots, slices.Repeat([]int{i}, one.odds)...)
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if m := f.machines[rng.IntN(len(f.machines))]; m.now != nil && !m.busy {
			one := all[lots[rng.IntN(len(lots))]]
			f.dealt[one.name]++
			one.do(m)
		}
	}
}

// retire has every machine serve an empty manifest, so that nothing begins any more.
func (f *yearFleet) retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.manifest = func(int) []*yearJob { return nil }
	for _, m := range f.machines {
		m.now.reload()
	}
}

// resume ends a job's pause wherever there is one.
func (f *yearFleet) resume(name string, scope job.Scope) {
	f.mu.Lock()
	var backends []*scheduler.Backend
	for _, m := range f.machines {
		if m.now != nil {
			backends = append(backends, m.now.backends[scope])
		}
	}
	f.mu.Unlock()
	for _, p := range backends {
		_, _ = p.Pause(context.Background(), tick.PauseRequest{Job: name, By: "the plan", Resume: true})
	}
}

// deploy puts a version of the manifest on the machine, and has its server load it.
func (m *machine) deploy(version int, reload bool) {
	m.f.mu.Lock()
	if m.f.over || m.version >= version {
		m.f.mu.Unlock()
		return
	}
	m.version = version
	s := m.now
	if s == nil { // its next one has it
		m.f.mu.Unlock()
		return
	}
	if reload || m.busy {
		s.reload()
		m.f.mu.Unlock()
		return
	}
	m.now, m.busy = nil, true
	m.f.mu.Unlock()
	s.shut()
	m.up()
}
