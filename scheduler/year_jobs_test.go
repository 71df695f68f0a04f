package scheduler_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-run/dibs/job"
)

// A kind is a job of the fleet through all versions of its manifest.
type kind struct {
	name    string
	exprs   [][]string // what its schedules are, in one version or another
	zone    string
	dst     job.DST
	scope   job.Scope
	policy  func(p *job.Policy)
	changes func(p *job.Policy, version int) // in some versions
	takes   time.Duration                    // its work takes up to this
	long    float64                          // how often it takes ten times as long
	fails   float64
	when    bool
	dormant func(machine int) bool
	rare    int // it is in one of so many versions only
}

// yearKinds are a mixed set of jobs: every dialect, zone, policy. every is the interval of the most
// frequent ones but one, which is there in one of bursts versions and fires every second.
func yearKinds(every time.Duration, bursts int) []kind {
	forbid := func(p *job.Policy) {}
	one := func(e ...string) []string { return e }
	each := func(d time.Duration) string { return "@every " + d.String() }
	return []kind{
		{name: "pulse", exprs: [][]string{one(each(every))}, policy: forbid, takes: every / 10},
		{name: "minute", exprs: [][]string{one("* * * * *"), one("*/2 * * * *")}, takes: 20 * time.Second, long: 0.02,
			policy: func(p *job.Policy) { p.Concurrency = job.Wait }},
		{name: "replace", exprs: [][]string{one("*/3 * * * *"), one("1-59/4 * * * *")}, takes: time.Minute, long: 0.2,
			policy: func(p *job.Policy) { p.Concurrency, p.StopGrace = job.Replace, 10*time.Second }},
		{name: "both", exprs: [][]string{one("15 */5 * * * *"), one("15,45 2-58/7 * * * *")}, zone: "Asia/Kolkata", takes: 4 * time.Minute, long: 0.1,
			policy: func(p *job.Policy) { p.Concurrency, p.OnCrash = job.Allow, job.CrashRerun }},
		{name: "again", exprs: [][]string{one("*/10 * * * *"), one("H/12 * * * *")}, takes: 2 * time.Minute, fails: 0.1,
			policy: func(p *job.Policy) {
				p.OnCrash, p.CatchUp, p.CatchUpWindow = job.CrashRerun, job.CatchUpAll, 3*time.Hour
				p.Retries = job.Retries{MaxAttempts: 3, Min: time.Second, Max: 20 * time.Second}
			}},
		{name: "latest", exprs: [][]string{one("5-59/15 * * * *"), one(each(13 * time.Minute))}, zone: "America/New_York", takes: time.Minute,
			policy: func(p *job.Policy) {
				p.CatchUp, p.CatchUpWindow, p.Jitter = job.CatchUpLatest, 6*time.Hour, 40*time.Second
			}},
		{name: "windowed", exprs: [][]string{one("*/20 * * * *"), one("*/30 * * * *", "7 8-18 * * 1-5")}, zone: "Europe/Berlin", takes: time.Minute,
			policy: func(p *job.Policy) { p.Between, p.UnlessBetween = []string{"06:00-23:00"}, []string{"12:00-13:00"} },
			changes: func(p *job.Policy, v int) {
				if v%3 == 1 {
					p.Between = []string{"08:00-20:00"}
				}
			}},
		{name: "wall", exprs: [][]string{one("30 * * * *"), one("0,30 1-3 * * *", "15 12 * * *")}, zone: "Europe/Berlin", takes: 5 * time.Minute, fails: 0.2,
			policy: func(p *job.Policy) {
				p.OnCrash, p.Timeout, p.Deadline = job.CrashRerun, 4*time.Minute, 10*time.Minute
				p.Retries = job.Retries{MaxAttempts: 2, Min: 5 * time.Second, Max: time.Minute}
			}},
		{name: "gap", exprs: [][]string{one("30 2 * * *", "10 * * * *")}, zone: "America/New_York", dst: job.DSTSkip, policy: forbid, takes: time.Second},
		{name: "twice", exprs: [][]string{one("*/30 1 * * *", "40 * * * *")}, zone: "Australia/Lord_Howe", dst: job.DSTRepeat, policy: forbid, takes: time.Second},
		{name: "days", exprs: [][]string{one("0 4 L * *", "0 4 15W * *", "0 4 * * 5#2", "30 4 */2 * &1-5"), one("0 5 L-2 * *", "5 5 * * MON")}, zone: "Asia/Tokyo", takes: time.Minute,
			policy: func(p *job.Policy) {
				p.CatchUp, p.CatchUpWindow, p.StartingDeadline = job.CatchUpAll, 20*time.Hour, 2*time.Hour
			}},
		{name: "yearly", exprs: [][]string{one("0 0 3 1 1 ? 2000/1"), one("@monthly")}, policy: forbid, takes: time.Second},
		{name: "asked", exprs: [][]string{one("*/7 * * * *")}, policy: forbid, when: true, takes: 10 * time.Second,
			dormant: func(machine int) bool { return machine > 2 }},
		{name: "burst", exprs: [][]string{one("@every 1s"), one("* * * * * *")}, policy: forbid, takes: 2 * time.Second, rare: bursts},
		{name: "stuck", exprs: [][]string{one("*/6 * * * *")}, takes: 8 * time.Minute, long: 0.1,
			policy: func(p *job.Policy) {
				p.Concurrency, p.StopGrace, p.CatchUp = job.Replace, 40*time.Second, job.CatchUpLatest
			},
			changes: func(p *job.Policy, v int) {
				switch v % 3 {
				case 1:
					p.Concurrency = job.Forbid
				case 2:
					p.Concurrency = job.Wait
				}
			}},
		{name: "each", exprs: [][]string{one("*/10 * * * *"), one("H/15 * * * *")}, scope: job.Host, policy: forbid, takes: 12 * time.Minute},
		{name: "each-again", exprs: [][]string{one("H H(1-4) * * *", "@hourly")}, scope: job.Host, takes: time.Minute,
			policy: func(p *job.Policy) { p.OnCrash, p.CatchUp = job.CrashRerun, job.CatchUpAll }},
	}
}

// yearManifest is a version of the manifest: each differs from the last in a schedule, a policy, or
// in which jobs there are.
func (f *yearFleet) yearManifest(kinds []kind, version int) (all []*yearJob) {
	for _, k := range kinds {
		d := f.dice("version "+k.name, time.UnixMicro(0), version)
		if d.IntN(12) == 0 || k.rare > 0 && d.IntN(k.rare) > 0 {
			continue
		}
		spec := job.Spec{App: "app", Name: k.name, Schedules: k.exprs[0], Timezone: cmp.Or(k.zone, "UTC"), DST: cmp.Or(k.dst, job.DSTVixie), Policy: job.DefaultPolicy(true)}
		spec.Policy.Scope = k.within()
		if k.policy != nil {
			k.policy(&spec.Policy)
		}
		if d.IntN(4) == 0 {
			spec.Schedules = k.exprs[len(k.exprs)-1]
		}
		if k.changes != nil {
			k.changes(&spec.Policy, version)
		}
		if d.IntN(6) == 0 {
			spec.Policy.Retries.MaxAttempts++
		}
		all = append(all, &yearJob{spec: spec, when: k.when, dormant: k.dormant, work: func(at time.Time, attempt int) labour {
			return f.labour(k, at, attempt)
		}})
	}
	return all
}

// longest is what the longest attempt of all kinds may take.
func longest(kinds []kind) (d time.Duration) {
	for _, k := range kinds {
		takes := k.takes
		if k.long > 0 {
			takes *= longer
		}
		d = max(d, takes)
	}
	return d
}

// longer is by how much a long one of its kind exceeds the others.
const longer = 10

func (f *yearFleet) labour(k kind, at time.Time, attempt int) labour {
	d := f.dice(k.name, at, attempt)
	l := labour{takes: upTo(d, k.takes), fails: d.Float64() < k.fails, lags: upTo(d, 15*time.Second)}
	if d.IntN(3) == 0 {
		l.takes = 0
	}
	if d.Float64() < k.long {
		l.takes *= longer
	}
	return l
}

func upTo(d *rand.Rand, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(d.Int64N(int64(most)))
}

func (k kind) key() string { return fmt.Sprint("app/", k.name) }

// within is the scope of the job.
func (k kind) within() job.Scope { return cmp.Or(k.scope, job.Global) }
