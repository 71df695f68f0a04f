//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"time"
)

// didRun says which outcomes mean that something ran.
var didRun = map[string]bool{"succeeded": true, "failed": true, "timed_out": true, "replaced": true, "canceled": true, "lost": true,
	"crashed": true, "skipped": false, "missed": false, "paused": false, "unavailable": false}

// account compares what dibs recorded with what was seen.
func (r *round) account(from, to time.Time) {
	r.accountOverlaps()
	for _, j := range r.jobs() {
		r.accountTwice(j.key(), j.rerun)
		if !j.host {
			r.accountOutcomes(j.key())
			for _, at := range expected(j.every, from, to) {
				r.accountTick(j.key(), at)
			}
		}
	}
	for _, c := range r.callers() {
		r.accountTwice(c.key, c.rerun)
		r.accountOutcomes(c.key)
		if c.spaced > 0 {
			r.accountSpacing(c)
		}
	}
	r.accountGrants()
	r.accountTasks()
	r.accountServices()
	if r.seen.unread > 0 {
		r.problem(0, 0, "%d lines of works whose beginning was not seen: the observer is at fault", r.seen.unread)
	}
}

// accountOverlaps judges works of one key, of one task, and of one limit.
func (r *round) accountOverlaps() {
	shared := map[string]bool{}
	for _, j := range r.jobs() {
		shared[j.key()] = j.shared
	}
	groups := r.seen.by(func(l *life) string { return map[bool]string{false: l.Key}[shared[l.Key]] })
	for key, lives := range r.seen.by(func(l *life) string { return l.Limit }) {
		groups["limit/"+key] = lives
	}
	for key, lives := range groups {
		beside := map[[2]*life]bool{}
		for _, v := range overlaps(key, lives) {
			r.judge(v)
			beside[[2]*life{v.older, v.newer}] = true
		}
		for i := 1; i < len(lives); i++ {
			a, b := lives[i-1], lives[i]
			// Of two that overlap either may have been granted first; the overlap itself is judged above.
			if key == b.Key && (b.Token == a.Token || b.Token < a.Token && !beside[[2]*life{a, b}]) {
				r.judgeTokens(key, a, b)
			}
		}
	}
}

// judge tells an overlap that a documented limit allows from one that nothing does.
func (r *round) judge(v overlap) {
	for _, s := range r.steps {
		if s.by > 0 && s.at <= v.newer.begin && v.older.last <= s.at+r.stepBound() {
			r.counts["overlaps within L12's bound after a forward step of the store's clock"]++
			r.overlapped = max(r.overlapped, v.lasted)
			r.say("allowed by L12: %s", v)
			return
		}
	}
	if r.leftAlone(v.older) {
		r.counts["overlaps of works whose guardian and warden were both killed"]++
		r.say("limit of L6: %s", v)
		return
	}
	r.problem(v.older.begin, v.older.last, "overlap: %s", v)
}

// judgeTokens tells a token that stepped back as L10 says it can from one that may not: the failover forgot the record
// of the larger one, and the store's clock had not come to that yet, since it was further ahead when it was granted. A
// work begins some time after its grant, at most a TTL, and the clock may have been stepped in between.
func (r *round) judgeTokens(key string, older, newer *life) {
	clock := newer.begin + min(r.off(newer.begin), r.off(newer.begin-r.ttl))
	if r.isLost(older.begin) && clock < boot(time.UnixMicro(older.Token)) {
		r.counts["tokens that stepped back within L10's limit: record lost and clock stepped back"]++
		r.say("limit of L10: %s: token %d of run %s after %d of run %s", key, newer.Token, newer.Run, older.Token, older.Run)
		return
	}
	r.problem(older.begin, newer.begin, "%s: token %d of run %s after %d of run %s", key, newer.Token, newer.Run, older.Token, older.Run)
}

// off is by how much the store's clock was off at an instant.
func (r *round) off(at time.Duration) (off time.Duration) {
	for _, s := range r.steps {
		if s.at <= at {
			off += s.by
		}
	}
	return off
}

// leftAlone says whether nobody was left who knows a work that escaped: its guardian and its warden were killed, and
// there was no control group, or nobody to kill that (L6). Whoever is only stopped is no excuse: the kernel continues
// the guardian when its deadline comes.
func (r *round) leftAlone(l *life) bool {
	killed := func(of func(*fault) []string) bool {
		return slices.ContainsFunc(r.faults, func(f *fault) bool { return f.forever && slices.Contains(of(f), l.Run) })
	}
	return killed(func(f *fault) []string { return f.unguarded }) && killed(func(f *fault) []string { return f.unwarded }) &&
		(!r.grouped(l.Host) || killed(func(f *fault) []string { return f.orphans }))
}

// grouped says whether the runs on a host have control groups.
func (r *round) grouped(name string) bool {
	return slices.ContainsFunc(r.hosts, func(h *host) bool { return h.name == name && h.grouped })
}

// stepBound is L12's: heartbeat, rpc timeout and kill, which shrink with a TTL below the default; a second is for the
// observer.
func (r *round) stepBound() time.Duration {
	return min(5*time.Second, 5*r.ttl/15) + time.Second
}

// expected are the ticks of a period between two instants.
func expected(every time.Duration, from, to time.Time) (ticks []time.Time) {
	for at := from.UTC().Truncate(every).Add(every); at.Before(to); at = at.Add(every) {
		ticks = append(ticks, at)
	}
	return ticks
}

// accountTick wants exactly one outcome of a tick.
func (r *round) accountTick(key string, at time.Time) {
	covering := r.covering(key, at)
	switch {
	case len(covering) == 0:
		r.counts["ticks without an outcome"]++
		r.tickProblem(at, "%s %s: no outcome", key, stamp(at))
	case covering[0].Unsettled:
		r.counts["ticks without an outcome"]++
		r.tickProblem(at, "%s %s: nobody has settled it", key, stamp(at))
	case unfinished(covering[0]):
		r.counts["ticks without an outcome"]++
		r.tickProblem(at, "%s %s: it is %s still", key, stamp(at), covering[0].Outcome)
	default:
		r.counts["ticks "+covering[0].Outcome]++
		if len(covering) > 1 {
			r.tickProblem(at, "%s %s: %d outcomes: %s, %s", key, stamp(at), len(covering), covering[0].Outcome, covering[1].Outcome)
		}
	}
}

// unfinished says whether a tick is on its way to its outcome.
func unfinished(e entry) bool {
	_, known := didRun[e.Outcome]
	return !known
}

func (r *round) covering(key string, at time.Time) (found []entry) {
	for _, e := range r.history[key] {
		if e.Tick != nil && (e.Tick.Equal(at) || e.Through != nil && !at.Before(*e.Tick) && !at.After(*e.Through)) {
			found = append(found, e)
		}
	}
	return found
}

// unsettled are the ticks that have no outcome yet.
func (r *round) unsettled(from, to time.Time) (ticks []string) {
	for _, j := range r.jobs() {
		if j.host {
			continue
		}
		for _, at := range expected(j.every, from, to) {
			if c := r.covering(j.key(), at); len(c) == 0 || c[0].Unsettled || unfinished(c[0]) {
				ticks = append(ticks, j.name+" "+stamp(at))
			}
		}
	}
	return ticks
}

// accountTwice wants no tick begun twice, but where a crash may be followed by one rerun.
func (r *round) accountTwice(key string, rerun bool) {
	most := 1
	if rerun {
		most = 2
	}
	ticks := r.seen.by(func(l *life) string {
		if l.Tick == "" || l.Key != key && l.Key != key+"@"+l.Host || r.isLost(l.begin) {
			return ""
		}
		return l.Key + " " + l.Tick
	})
	for tick, lives := range ticks {
		if len(lives) > most {
			r.problem(lives[0].begin, lives[len(lives)-1].begin, "%s begun %d times: %s", tick, len(lives), runsOf(lives))
		}
		if len(lives) > 1 {
			r.counts["ticks begun again after a crash"]++
		}
	}
}

func runsOf(lives []*life) (text string) {
	for _, l := range lives {
		text += fmt.Sprintf("[run %s on %s at %s, ended %v]", l.Run, l.Host, clockText(l.begin), l.ended)
	}
	return text
}

// isLost says whether a failover may have forgotten what was recorded then.
func (r *round) isLost(at time.Duration) bool {
	return slices.ContainsFunc(r.lost, func(s lostSpan) bool { return at >= s.from-time.Second && at <= s.until+time.Second })
}

// accountOutcomes wants each recorded outcome to be true, and each run that was seen on record.
func (r *round) accountOutcomes(key string) {
	lives := r.seen.by(func(l *life) string { return map[bool]string{true: l.Run}[l.Key == key] })
	recorded := map[string]bool{}
	for _, e := range r.history[key] {
		for _, run := range e.Runs {
			recorded[run.RunID] = true
			r.accountRun(e, run.RunID, run.Outcome, run.Host, lives[run.RunID], run.Started, run.Ended)
		}
	}
	for _, l := range r.seen.lives {
		if l.Key == key && l.Tick != "" && !r.isLost(l.begin) {
			r.accountSeen(l)
		}
	}
	for run, seen := range lives {
		r.counts["runs seen"]++
		if !recorded[run] && !r.isLost(seen[0].begin) {
			r.problem(seen[0].begin, seen[0].last, "%s: run %s of tick %s was seen on %s and is not on record", key, run, seen[0].Tick, seen[0].Host)
		}
	}
}

// accountSeen wants no tick that ran to be recorded as one that did not.
func (r *round) accountSeen(l *life) {
	at, err := time.Parse(time.RFC3339, l.Tick)
	if err != nil {
		r.problem(l.begin, l.last, "%s: run %s was told of a tick %q", l.Key, l.Run, l.Tick)
		return
	}
	for _, e := range r.covering(l.Key, at) {
		if ran, known := didRun[e.Outcome]; known && !ran {
			r.problem(l.begin, l.last, "%s %s is recorded as %s (%s), and run %s was seen on %s", l.Key, l.Tick, e.Outcome, e.Reason, l.Run, l.Host)
		}
	}
}

// accountRun judges what is recorded of one run.
func (r *round) accountRun(e entry, id, outcome, host string, seen []*life, started, ended time.Time) {
	tick := "none"
	if e.Tick != nil {
		tick = stamp(*e.Tick)
	}
	began, over := boot(started), boot(ended)
	switch {
	case outcome == "succeeded" && !slices.ContainsFunc(seen, func(l *life) bool { return l.ended }):
		r.problem(began, over, "%s tick %s run %s on %s succeeded by the record, and its end was not seen", e.Job, tick, id, host)
	case didRun[outcome] && len(seen) == 0 && !started.IsZero():
		r.counts["runs recorded as "+outcome+" of which nothing was seen"]++
		// A smoke's TTL may be over before a slow machine has got to the first line of a work.
		if !r.isSmoke() && !r.harmed(id, host, began, over) {
			r.problem(began, over, "%s tick %s run %s on %s: %s by the record (%s), nothing of it was seen, and no process there was harmed", e.Job, tick, id, host, outcome, e.Reason)
		}
	}
}

// harmed says whether the processes of a run were killed or stopped, or some of its host at the time of the
// run. That is by the store's clock, which may have been off then by what it was stepped, and by something else
// when the run began than when it was over.
func (r *round) harmed(run, host string, began, over time.Duration) bool {
	return slices.ContainsFunc(r.faults, func(f *fault) bool {
		if slices.Contains(slices.Concat(f.orphans, f.unguarded, f.unwarded), run) {
			return true
		}
		if f.host != host || f.kind.uses != "kill@" && f.kind.uses != "stop@" {
			return false
		}
		for _, from := range r.instants(began) {
			for _, until := range r.instants(over) {
				if from <= until+time.Second && f.from <= until+time.Second && f.until >= from-time.Second {
					return true
				}
			}
		}
		return false
	})
}

// instants are those on the boot clock that an instant of the store's clock may have been.
func (r *round) instants(told time.Duration) (real []time.Duration) {
	off := time.Duration(0)
	offs := []time.Duration{off}
	for _, s := range r.steps {
		off += s.by
		offs = append(offs, off)
	}
	for _, off := range offs {
		if r.wasOff(off, told-off) {
			real = append(real, told-off)
		}
	}
	return real
}

// wasOff says whether the store's clock was off by so much at an instant, or a process may have gone on as if
// it were: it follows the old line until a new one has persisted for a minute, and hears of a step at its next
// heartbeat.
func (r *round) wasOff(by, at time.Duration) bool {
	const persists = time.Minute + 5*time.Second
	off, last, was := time.Duration(0), time.Duration(0), by == 0
	for _, s := range r.steps {
		if s.at > at {
			break
		}
		was = was && (off == by || s.at-last < persists)
		off, last = off+s.by, s.at
		was = was || off == by
	}
	return off == by || was && at-last < persists
}

// boot is an instant of the wall clock on the boot clock. Nobody steps the machine's own wall clock.
func boot(at time.Time) time.Duration { return bootTime() - time.Since(at) }
