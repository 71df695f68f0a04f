package scheduler_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/test/sim"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// A yearBook is one store of the simulated fleet, with all that an observer beside it writes down:
// who was granted what, which definitions were registered when, what work was going on, and how
// each tick ended before its row was pruned.
type yearBook struct {
	t      *testing.T
	name   string
	b      *memory.Backend
	server *sim.Server
	ttl    time.Duration

	granting sync.Mutex

	mu      sync.Mutex
	offset  time.Duration // of the store's clock
	stepped time.Time     // when it last stepped forward
	tokens  map[lease.Key]lease.Record
	eras    map[string][]era
	starts  map[string]map[int64]int      // by job, by tick: how often its work was begun
	runs    map[string]map[int64][]string // and the runs that were recorded
	atWork  map[string][]*shift
	rows    map[string][]yearRow
	beyond  map[string]map[int64]bool // by job: rows of a definition that ended before them
	told    time.Time                 // rows before it are in rows
	faults  int

	works, excused, most, unsettled int
}

// An era is a time in which one definition of a job was registered.
type era struct {
	from, to   time.Time // ticks in [from, to) belong to it
	definition string
	generation int64
}

// yearRow is what is remembered of a row.
type yearRow struct {
	at, through int64 // µs
	count       int
	outcome     run.Outcome
}

// A shift is one piece of work, from its begin to its end, as somebody sees it who stands beside it.
type shift struct {
	job   string
	run   string
	tick  time.Time
	alone bool // its policy forbids others
	began time.Time
}

func newYearBook(t *testing.T, name string, ttl time.Duration) *yearBook {
	y := &yearBook{t: t, name: name, server: new(sim.Server), ttl: ttl, tokens: map[lease.Key]lease.Record{}, eras: map[string][]era{},
		starts: map[string]map[int64]int{}, runs: map[string]map[int64][]string{}, atWork: map[string][]*shift{}, rows: map[string][]yearRow{}, beyond: map[string]map[int64]bool{}}
	y.b = memory.New(memory.Options{Clock: y.now, MaxTTL: ttl})
	return y
}

func (y *yearBook) now() time.Time {
	y.mu.Lock()
	defer y.mu.Unlock()
	return time.Now().Add(y.offset)
}

// step moves the store's clock.
func (y *yearBook) step(d time.Duration) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.offset += d; d > 0 {
		y.stepped = time.Now()
	}
}

// wrong reports a fault, and not more of them than one can read.
func (y *yearBook) wrong(format string, args ...any) {
	if y.faults++; y.faults <= 15 {
		y.t.Errorf("%s (%s): %s", y.name, time.Now().UTC().Format(time.RFC3339Nano), fmt.Sprintf(format, args...))
	}
}

// store is the store, with the observer beside it.
func (y *yearBook) store() *store.Store {
	st := *y.b.Store()
	st.Leases, st.Ticks = seenLeases{st.Leases, y}, seenTicks{st.Ticks, y}
	return &st
}

type seenLeases struct {
	lease.Store
	y *yearBook
}

func (l seenLeases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	l.y.granting.Lock() // so that they are written down in their order
	defer l.y.granting.Unlock()
	r, err := l.Store.Acquire(ctx, reqs)
	l.y.mu.Lock()
	defer l.y.mu.Unlock()
	for i, a := range r.Answers {
		if a.Status != lease.OK || reqs[i].Key.Once() {
			continue
		}
		last := l.y.tokens[reqs[i].Key]
		if last.Owner != a.Record.Owner && a.Record.Token <= last.Token {
			l.y.wrong("the grant of %s to %s has token %d after %d", reqs[i].Key, a.Record.Holder, a.Record.Token, last.Token)
		}
		l.y.tokens[reqs[i].Key] = a.Record
	}
	return r, err
}

type seenTicks struct {
	tick.Store
	y *yearBook
}

// SetJobs writes down which definition counts from when.
func (k seenTicks) SetJobs(ctx context.Context, reqs []tick.JobRequest) ([]tick.Job, error) {
	known, err := k.Store.SetJobs(ctx, reqs)
	for i, j := range known {
		from := j.Since
		if !j.Removed.IsZero() {
			from = j.Removed
		} else if j.Mark.After(from) { // the store's clock stepped back: what is settled is of the last era
			from = j.Mark.Add(time.Microsecond)
		}
		var before []int64
		rows, err := k.y.b.Store().History.Ticks(ctx, history.Query{Job: reqs[i].Name, From: from, Limit: 10_000})
		if err != nil {
			k.y.t.Error(err)
		}
		for _, r := range rows {
			before = append(before, r.At.UnixMicro())
		}
		k.y.registered(j, from, before)
	}
	return known, err
}

func (y *yearBook) registered(j tick.Job, from time.Time, before []int64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	all := y.eras[j.Name]
	var last *era
	if n := len(all); n > 0 {
		last = &all[n-1]
	}
	ends := last != nil && last.to.IsZero()
	switch {
	case j.Generation == 0: // never registered
		return
	case !j.Removed.IsZero():
		if ends {
			last.to = j.Removed
		}
	case last == nil || last.generation != j.Generation:
		if ends {
			last.to = from
		}
		y.eras[j.Name] = append(all, era{from: from, definition: j.Definition, generation: j.Generation})
	default:
		return
	}
	// What was claimed a little early, or before the store's clock stepped back, stays what it is.
	if ends && y.beyond[j.Name] == nil {
		y.beyond[j.Name] = map[int64]bool{}
	}
	for _, at := range before {
		y.beyond[j.Name][at] = true
	}
}

// Unsettle writes down that the definition which is registered counts from earlier on: what was claimed above the
// new mark stays what it is, whichever definition it was of.
func (k seenTicks) Unsettle(ctx context.Context, req tick.UnsettleRequest) (tick.Answer, error) {
	a, err := k.Store.Unsettle(ctx, req)
	if err != nil || a.Status != tick.Won {
		return a, err
	}
	from := req.To.Add(time.Microsecond)
	rows, err := k.y.b.Store().History.Ticks(ctx, history.Query{Job: req.Job, From: from, Limit: 10_000})
	if err != nil {
		k.y.t.Error(err)
	}
	k.y.mu.Lock()
	defer k.y.mu.Unlock()
	k.y.unsettled++
	if k.y.beyond[req.Job] == nil {
		k.y.beyond[req.Job] = map[int64]bool{}
	}
	for _, r := range rows {
		k.y.beyond[req.Job][r.At.UnixMicro()] = true
	}
	all := k.y.eras[req.Job]
	last := all[len(all)-1]
	all = slices.DeleteFunc(all[:len(all)-1], func(e era) bool { return !e.from.Before(from) })
	for i := range all {
		if all[i].to.After(from) {
			all[i].to = from
		}
	}
	if last.from.After(from) {
		last.from = from
	}
	k.y.eras[req.Job] = append(all, last)
	return a, nil
}

// Start checks that a tick's run begins only when no other one of it is unfinished, and in no pause.
func (k seenTicks) Start(ctx context.Context, reqs []tick.StartRequest) ([]tick.Answer, error) {
	as, err := k.Store.Start(ctx, reqs)
	for i, a := range as {
		if err == nil && a.Status == tick.Won {
			k.y.paused(a)
			k.alone(ctx, reqs[i].Run)
		}
	}
	return as, err
}

func (k seenTicks) alone(ctx context.Context, r run.Record) {
	for _, id := range k.y.earlier(r) {
		runs, err := k.y.b.Store().History.Runs(ctx, history.Query{Job: r.Job, RunID: id, Limit: 1})
		if err != nil || len(runs) != 1 || runs[0].Outcome == "" {
			k.y.mu.Lock()
			k.y.wrong("%s at %s: run %s begins while %s is unfinished (%v)", r.Job, r.Tick, r.ID, id, err)
			k.y.mu.Unlock()
		}
	}
}

// paused checks that a tick which was not run before is not claimed and begun in a pause (rule T8).
func (y *yearBook) paused(a tick.Answer) {
	jobs, err := y.b.Store().Ticks.Jobs(context.Background(), tick.JobQuery{Names: []string{a.Tick.Job}})
	i := slices.IndexFunc(jobs, func(j tick.Job) bool { return j.Name == a.Tick.Job })
	if err != nil || i < 0 || a.Tick.Reruns > 0 {
		return
	}
	// A takeover asks before it takes.
	if p := jobs[i].Pause; p.Covers(a.Now) && a.Tick.Claimed.After(p.Since.Add(5*time.Second)) {
		y.mu.Lock()
		defer y.mu.Unlock()
		y.wrong("%s at %s was claimed at %s and begun, in a pause since %s", a.Tick.Job, a.Tick.At, a.Tick.Claimed, p.Since)
	}
}

// earlier are the other runs of a run's tick that were begun before.
func (y *yearBook) earlier(r run.Record) (ids []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	us := r.Tick.UnixMicro()
	if y.runs[r.Job] == nil {
		y.runs[r.Job] = map[int64][]string{}
	}
	if all := y.runs[r.Job][us]; !slices.Contains(all, r.ID) { // else it is asked once more
		ids = slices.Clone(all)
		y.runs[r.Job][us] = append(all, r.ID)
	}
	return ids
}

// begin sees work beginning.
func (y *yearBook) begin(c run.Call, alone bool) *shift {
	y.mu.Lock()
	defer y.mu.Unlock()
	s := &shift{job: c.Run.Job, run: c.Run.ID, tick: c.Run.Tick, alone: alone, began: time.Now()}
	if y.works++; c.Attempt == 1 {
		if y.starts[s.job] == nil {
			y.starts[s.job] = map[int64]int{}
		}
		y.starts[s.job][s.tick.UnixMicro()]++
	}
	for _, other := range y.atWork[s.job] {
		same := other.tick.Equal(s.tick)
		if !same && !(alone && other.alone) {
			continue
		}
		// When the store's clock steps forward, leases lapse under their holders (rule L12).
		if !y.stepped.IsZero() && time.Since(y.stepped) <= y.ttl {
			y.excused++
			continue
		}
		y.wrong("%s: run %s of tick %s begins while %s of %s is at work since %s", s.job, s.run, s.tick.Format(time.RFC3339), other.run, other.tick.Format(time.RFC3339), other.began)
	}
	y.atWork[s.job] = append(y.atWork[s.job], s)
	return s
}

// end sees it ending.
func (y *yearBook) end(s *shift) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.atWork[s.job] = slices.DeleteFunc(y.atWork[s.job], func(o *shift) bool { return o == s })
}

// collect writes down how the ticks before an instant ended, before their rows are pruned.
func (y *yearBook) collect(until time.Time) {
	st := y.b.Store()
	names := map[string]bool{}
	y.mu.Lock()
	for name := range y.eras {
		names[name] = true
	}
	from := y.told
	y.told = until
	for name := range y.eras { // what was begun once is of no interest any more
		maps.DeleteFunc(y.starts[name], func(us int64, n int) bool { return n == 1 && us < from.UnixMicro() })
		maps.DeleteFunc(y.runs[name], func(us int64, _ []string) bool { return us < from.UnixMicro() })
	}
	y.mu.Unlock()
	kept := 0
	for name := range names {
		var all []yearRow
		for to := until; ; {
			rows, err := st.History.Ticks(context.Background(), history.Query{Job: name, From: from, To: to, Limit: 10_000})
			if err != nil {
				y.t.Fatal(err)
			}
			for _, r := range rows {
				if r.At.Before(from) {
					continue // a range that was told before
				}
				if r.State != tick.Closed {
					y.t.Errorf("%s: %s at %s is %s still", y.name, name, r.At, r.State)
				}
				y.mu.Lock()
				begun := y.starts[name][r.At.UnixMicro()]
				y.mu.Unlock()
				if begun > 0 && !r.Outcome.Ran() {
					y.wrong("%s: tick %s was started, and ended as %s: %s", name, r.At, r.Outcome, r.Reason)
				}
				row := yearRow{at: r.At.UnixMicro(), count: max(r.Count, 1), outcome: r.Outcome}
				if row.through = row.at; !r.Through.IsZero() {
					row.through = r.Through.UnixMicro()
				}
				all = append(all, row)
			}
			if len(rows) < 10_000 {
				break
			}
			to = rows[len(rows)-1].At
		}
		slices.Reverse(all)
		y.rows[name] = append(y.rows[name], all...)
		kept += len(all)
	}
	y.most = max(y.most, kept)
}

// busy says whether a tick of the last days has no outcome yet although it was claimed.
func (y *yearBook) busy() bool {
	y.mu.Lock()
	names := slices.Collect(maps.Keys(y.eras))
	y.mu.Unlock()
	return slices.ContainsFunc(names, func(name string) bool {
		q := history.Query{Job: name, From: y.now().Add(-24 * time.Hour), Limit: 10_000}
		rows, err := y.b.Store().History.Ticks(context.Background(), q)
		if err != nil {
			y.t.Fatal(err)
		}
		return slices.ContainsFunc(rows, func(r tick.Tick) bool { return r.State != tick.Closed })
	})
}

// judge compares what was written down with the ticks that the registered schedules have.
func (y *yearBook) judge(reruns map[string]bool) (ticks int, outcomes map[run.Outcome]int) {
	outcomes = map[run.Outcome]int{}
	for name, eras := range y.eras {
		ticks += y.judgeJob(name, eras, outcomes, reruns[name])
	}
	return ticks, outcomes
}

func (y *yearBook) judgeJob(name string, eras []era, outcomes map[run.Outcome]int, rerun bool) (n int) {
	jobs, err := y.b.Store().Ticks.Jobs(context.Background(), tick.JobQuery{Names: []string{name}})
	if err != nil || len(jobs) == 0 {
		y.t.Fatal(name, err)
	}
	rows, i, beyond := y.rows[name], 0, y.beyond[name]
	var left int          // ticks of rows[i] not met yet
	var settled time.Time // up to here, all of the last era must have an outcome
	for e, era := range eras {
		until := era.to
		if settled = until; until.IsZero() {
			until = jobs[slices.IndexFunc(jobs, func(j tick.Job) bool { return j.Name == name })].Mark.Add(time.Microsecond)
			settled = until
			if until.Before(y.now().Add(-time.Hour)) && !never(era.definition, name, until, y.now()) {
				y.wrong("%s is settled up to %s only", name, until)
			}
		}
		if last := len(rows) - 1; era.to.IsZero() && last >= 0 && rows[last].through >= until.UnixMicro() {
			until = time.UnixMicro(rows[last].through + 1) // the store's clock stepped back, and what is ahead of it is not settled
		}
		set := yearSet(y.t, era.definition, name)
		met := func(at time.Time) bool { // takes the tick's row
			us := at.UnixMicro()
			for i < len(rows) && beyond[rows[i].at] && rows[i].through < us {
				i, left = i+1, 0
			}
			if i < len(rows) && beyond[rows[i].at] {
				return rows[i].at <= us
			}
			if i < len(rows) && left == 0 {
				left = rows[i].count
			}
			if i == len(rows) || rows[i].at > us || rows[i].through < us {
				return false
			}
			outcomes[rows[i].outcome]++
			if left--; left == 0 {
				if rows[i].through != us {
					y.wrong("%s: the range %s … %s of %d ticks ends with %s", name, micro(rows[i].at), micro(rows[i].through), rows[i].count, at)
				}
				i++
			}
			return true
		}
		for at, ok := set.Next(era.from.Add(-time.Microsecond)); ok && at.Before(until); at, ok = set.Next(at) {
			n++
			for i < len(rows) && rows[i].through < at.UnixMicro() {
				if beyond[rows[i].at] {
					i, left = i+1, 0
					continue
				}
				y.wrong("%s: %s … %s (%s, %d) is no tick of %s", name, micro(rows[i].at), micro(rows[i].through), rows[i].outcome, rows[i].count, era.definition)
				i, left = i+1, 0
			}
			if !met(at) && at.Before(settled) {
				y.wrong("%s: tick %s has no outcome; era %d of %d is %s … %s", name, at.Format(time.RFC3339Nano), e, len(eras), era.from.Format(time.RFC3339Nano), until.Format(time.RFC3339Nano))
			}
			if s := y.starts[name][at.UnixMicro()]; s > 1 && !rerun || s > 2 {
				y.wrong("%s: tick %s was started %d times", name, at, s)
			}
		}
	}
	for ; i < len(rows); i++ {
		if beyond[rows[i].at] {
			continue
		}
		y.wrong("%s: %s … %s (%s, %d) is no tick", name, micro(rows[i].at), micro(rows[i].through), rows[i].outcome, rows[i].count)
	}
	return n
}

func micro(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339Nano) }

// never says whether a definition has no tick between two instants.
func never(definition, name string, from, to time.Time) bool {
	set := yearSet(nil, definition, name)
	at, ok := set.Next(from)
	return !ok || at.After(to.Add(-time.Hour))
}

// yearSet parses a registered definition, by itself.
func yearSet(t *testing.T, definition, name string) schedule.Set {
	spec, err := job.ParseDefinition(definition)
	if err != nil {
		panic(err)
	}
	zone, err := schedule.LoadZone(spec.Timezone)
	if err != nil {
		panic(err)
	}
	var all []*schedule.Schedule
	for _, expr := range spec.Schedules {
		s, err := schedule.Options{Zone: zone, Name: name, DST: schedule.DST(spec.DST)}.Parse(expr)
		if err != nil {
			panic(err)
		}
		all = append(all, s)
	}
	return schedule.Union(all...)
}

// nothingLeft checks that the end leaves nothing open.
func (y *yearBook) nothingLeft() {
	st, ctx := y.b.Store(), context.Background()
	if open, err := st.Ticks.Orphans(ctx, tick.Look{}); err != nil || len(open.Ticks) > 0 {
		y.wrong("%d ticks are unfinished (%v), such as %+v", len(open.Ticks), err, open.Ticks[0])
	}
	if r, err := st.Leases.List(ctx, "", false); err != nil || len(r.Answers) > turns(r) {
		y.wrong("%d leases are held still (%v), such as %+v", len(r.Answers), err, r.Answers[0].Record)
	}
	for name := range y.eras {
		runs, err := st.History.Runs(ctx, history.Query{Job: name, Limit: 10_000})
		if err != nil {
			y.t.Fatal(err)
		}
		for _, r := range runs {
			if r.Outcome == "" {
				y.wrong("run %s of %s at %s, begun %s, has no outcome", r.ID, name, r.Tick, r.Started)
			}
		}
		if n := len(y.atWork[name]); n > 0 {
			y.wrong("%d pieces of work of %s are going on", n, name)
		}
	}
	if all, err := st.Leases.List(ctx, "", true); err != nil || len(all.Answers) > 5000 {
		y.wrong("%d records of leases are kept (%v)", len(all.Answers), err)
	}
	oldest := y.now().Add(-91 * 24 * time.Hour)
	for _, q := range []history.Query{{To: oldest}} {
		old, err := st.History.Ticks(ctx, q)
		old = slices.DeleteFunc(old, func(t tick.Tick) bool { return strings.Contains(t.Job, "yearly") })
		if err != nil || len(old) > 0 {
			y.wrong("%d ticks are kept for longer than 90 days (%v), such as %+v", len(old), err, old[0])
		}
		if runs, err := st.History.Runs(ctx, q); err != nil || len(runs) > 0 {
			y.wrong("%d runs are kept for longer than 90 days (%v)", len(runs), err)
		}
		if events, err := st.History.Events(ctx, q); err != nil || len(events) > 0 {
			y.wrong("%d events are kept for longer than 90 days (%v)", len(events), err)
		}
	}
}
