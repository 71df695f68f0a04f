package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var nine = time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC) // a Friday

// decided is a job of which a test asks what its policy says.
func decided(expr string, change func(*job.Policy)) *Job {
	j := &Job{Spec: job.Spec{App: "app", Name: "j", Schedules: []string{expr}, Timezone: "UTC", Policy: job.DefaultPolicy(true)}}
	if change != nil {
		change(&j.Spec.Policy)
	}
	return j
}

// A tick is run again once, for what its process did not decide, up to the end of the window and not beyond it.
// Holds: T3.
func TestWhatRunsAgain(t *testing.T) {
	const window = time.Hour
	again := func(p *job.Policy) { p.OnCrash, p.CatchUpWindow = job.CrashRerun, window }
	lost := tick.Tick{At: nine, State: tick.Closed, Outcome: run.Lost}
	with := func(change func(*tick.Tick)) tick.Tick { r := lost; change(&r); return r }
	outcome := func(o run.Outcome, reason string) tick.Tick {
		return with(func(r *tick.Tick) { r.Outcome, r.Reason = o, reason })
	}
	dormant := decided("0 * * * *", again)
	dormant.Dormant = true
	for _, c := range []struct {
		what  string
		j     *Job
		t     tick.Tick
		after time.Duration
		want  bool
	}{
		{"lost", decided("0 * * * *", again), lost, 0, true},
		{"crashed", decided("0 * * * *", again), outcome(run.Crashed, ""), 0, true},
		{"shut down", decided("0 * * * *", again), outcome(run.Canceled, run.ReasonShutdown), 0, true},
		{"canceled by somebody", decided("0 * * * *", again), outcome(run.Canceled, "ann"), 0, false},
		{"failed", decided("0 * * * *", again), outcome(run.Failed, ""), 0, false},
		{"replaced", decided("0 * * * *", again), outcome(run.Replaced, ""), 0, false},
		{"missed", decided("0 * * * *", again), outcome(run.Missed, ""), 0, false},
		{"at the end of its window", decided("0 * * * *", again), lost, window, true},
		{"beyond its window", decided("0 * * * *", again), lost, window + 1, false},
		{"run again already", decided("0 * * * *", again), with(func(r *tick.Tick) { r.Reruns = 1 }), 0, false},
		{"not ended", decided("0 * * * *", again), with(func(r *tick.Tick) { r.State = tick.Started }), 0, false},
		{"of a job that does not ask for it", decided("0 * * * *", func(p *job.Policy) { p.CatchUpWindow = window }), lost, 0, false},
		{"of a job that is left to others", dormant, lost, 0, false},
	} {
		if got := c.j.runsAgain(c.t, nine.Add(c.after)); got != c.want {
			t.Errorf("%s: run again %v", c.what, got)
		}
	}
	reruns := with(func(r *tick.Tick) { r.Reruns = 1 })
	asks, does := decided("0 * * * *", again), decided("0 * * * *", nil)
	for what, c := range map[string]struct{ got, want time.Time }{
		"a first run":                                {asks.takeBy(lost), asks.StartBy(nine)},
		"a second run":                               {asks.takeBy(reruns), nine.Add(window)},
		"a second run that nobody asks for":          {does.takeBy(reruns), time.Time{}},
		"a first run of one that asks for no second": {does.takeBy(lost), does.StartBy(nine)},
	} {
		if !c.got.Equal(c.want) {
			t.Errorf("%s may be taken over until %s, want %s", what, c.got, c.want)
		}
	}
}

// A tick that was not run again ended as its run did, in so far as that run may be run again at all.
// Holds: T3.
func TestHowATickEndsThatIsNotRunAgain(t *testing.T) {
	for _, c := range []struct {
		last run.Record
		want run.Outcome
		says string
		sure bool
	}{
		{run.Record{}, run.Crashed, "not run again: why", false},
		{run.Record{Outcome: run.Lost, Reason: "no answer"}, run.Lost, "no answer; not run again: why", true},
		{run.Record{Outcome: run.Crashed, Inferred: true}, run.Crashed, "not run again: why", false},
		{run.Record{Outcome: run.Canceled, Reason: run.ReasonShutdown}, run.Canceled, run.ReasonShutdown + "; not run again: why", true},
		{run.Record{Outcome: run.Canceled, Reason: "ann"}, run.Crashed, "ann; not run again: why", false},
		{run.Record{Outcome: run.Succeeded}, run.Crashed, "not run again: why", false},
	} {
		got := notAgain(run.Record{Outcome: run.Missed, Reason: "why"}, c.last)
		if got.Outcome != c.want || got.Reason != c.says || got.Inferred == c.sure {
			t.Errorf("after %+v: %s, %q, inferred %v", c.last, got.Outcome, got.Reason, got.Inferred)
		}
	}
}

// A window has its first minute, and not its last one; a pause comes before it.
// Holds: promise 10, T8.
func TestTheFateOfATick(t *testing.T) {
	for _, c := range []struct {
		between, unless string
		at              string
		open            bool
	}{
		{"", "", "00:00:00", true}, {"09:00-17:00", "", "08:59:59", false}, {"09:00-17:00", "", "09:00:00", true},
		{"09:00-17:00", "", "16:59:59", true}, {"09:00-17:00", "", "17:00:00", false}, {"", "09:00-17:00", "08:59:59", true},
		{"", "09:00-17:00", "09:00:00", false}, {"", "09:00-17:00", "16:59:59", false}, {"", "09:00-17:00", "17:00:00", true},
		{"22:00-02:00", "", "21:59:59", false}, {"22:00-02:00", "", "22:00:00", true}, {"22:00-02:00", "", "01:59:59", true},
		{"22:00-02:00", "", "02:00:00", false}, {"09:00-17:00", "12:00-13:00", "12:30:00", false}, {"09:00-17:00", "12:00-13:00", "13:00:00", true},
		{"SAT 00:00-24:00", "", "09:00:00", false}, {"FRI 00:00-24:00", "", "23:59:59", true},
	} {
		j := decided("* * * * *", func(p *job.Policy) {
			if c.between != "" {
				p.Between = []string{c.between}
			}
			if c.unless != "" {
				p.UnlessBetween = []string{c.unless}
			}
		})
		clock, err := time.Parse(time.TimeOnly, c.at)
		if err != nil {
			t.Fatal(err)
		}
		at := nine.Truncate(24 * time.Hour).Add(time.Duration(clock.Hour())*time.Hour + time.Duration(clock.Minute())*time.Minute + time.Duration(clock.Second())*time.Second)
		want := run.Missed
		if !c.open {
			want = run.Skipped
		}
		if got, reason := j.Fate(tick.Pause{}, at); j.Open(at) != c.open || got != want || (reason == run.ReasonWindow) == c.open {
			t.Errorf("between %q unless %q at %s: open %v, %s: %s", c.between, c.unless, c.at, j.Open(at), got, reason)
		}
		if got, _ := j.Fate(tick.Pause{Since: at}, at); got != run.Paused {
			t.Errorf("in a pause: %s", got)
		}
		if got, _ := j.Fate(tick.Pause{Since: at.Add(-time.Hour), Until: at}, at); got != want {
			t.Errorf("at the end of a pause: %s, want %s", got, want)
		}
	}
}

// How late a tick may start: half the period and five minutes at most, or what the job says; each counts from when
// its jitter lets it start.
// Holds: T4.
func TestHowLateATickMayStart(t *testing.T) {
	for _, c := range []struct {
		expr             string
		deadline, jitter time.Duration
		want             time.Duration
	}{
		{"* * * * *", 0, 0, 30 * time.Second}, {"*/10 * * * *", 0, 0, 5 * time.Minute}, {"*/9 * * * *", 0, 0, 0}, {"0 * * * *", 0, 0, 5 * time.Minute},
		{"* * * * *", time.Hour, 0, time.Hour}, {"0 * * * *", time.Second, 0, time.Second},
		{"0 * * * *", time.Second, time.Minute, time.Second},
	} {
		j := decided(c.expr, func(p *job.Policy) { p.StartingDeadline, p.Jitter = c.deadline, c.jitter })
		if c.want == 0 {
			c.want = min(j.Set().Period()/2, maxLate)
		}
		begins := j.Starts(nine)
		if shift := begins.Sub(nine); shift < 0 || shift >= max(c.jitter, 1) {
			t.Errorf("%+v: it starts %s later", c, shift)
		}
		if got := j.StartBy(nine).Sub(begins); got != c.want {
			t.Errorf("%+v: it may start %s late", c, got)
		}
		by := j.StartBy(nine)
		for d, in := range map[time.Duration]bool{-1: true, 0: true, 1: false} {
			if at, ok := j.Due(nine, by.Add(d)); ok != in || !at.Equal(nine) {
				t.Errorf("%+v: %d ns after its last instant: %s, due %v", c, d, at, ok)
			}
		}
	}
	hourly := decided("0 * * * *", nil)
	for d, want := range map[time.Duration]time.Time{tick.Ahead: nine, tick.Ahead + 1: nine.Add(-time.Hour)} {
		if at, _ := hourly.Due(nine.Add(-d), nine); !at.Equal(want) {
			t.Errorf("started %s before it: %s, want %s", d, at, want)
		}
	}
}

// A job's share of its jitter is less than that, always the same, and another one for another job.
func TestTheShareOfAJitter(t *testing.T) {
	for _, jitter := range []time.Duration{0, 1, time.Millisecond - 1, time.Millisecond, 2 * time.Millisecond, time.Minute} {
		shares := map[time.Duration]bool{}
		for n := range 1000 {
			name := fmt.Sprint("app/j", n)
			d := spread(name, jitter)
			if d < 0 || d > 0 && d >= jitter || d != spread(name, jitter) {
				t.Fatalf("of %s: %s", jitter, d)
			}
			shares[d] = true
		}
		if want := min(int(jitter/time.Millisecond), 900); len(shares) < want {
			t.Errorf("of %s there are %d shares for 1,000 jobs", jitter, len(shares))
		}
	}
}

// Pauses between attempts double, up to their bound, and a quarter at most is added: over a thousand draws.
func TestThePausesOfARun(t *testing.T) {
	r := job.Retries{Min: 4 * time.Second, Max: time.Minute}
	for n, exact := range map[int]time.Duration{1: 4 * time.Second, 2: 8 * time.Second, 3: 16 * time.Second, 4: 32 * time.Second, 5: time.Minute, 100: time.Minute} {
		most := min(exact+exact/4, r.Max)
		pause := limits(job.Spec{Policy: job.Policy{Retries: r}}).Backoff
		low, high := pause(n), time.Duration(0)
		for range 1000 {
			d := pause(n)
			low, high = min(low, d), max(high, d)
		}
		if low < exact || high > most || high-low < (most-exact)*9/10 {
			t.Errorf("after attempt %d: %s to %s, want %s to %s", n, low, high, exact, most)
		}
	}
}

// What is ahead of the store's clock by no more than two readings of one clock may differ is not ahead.
// Holds: L12.
func TestWhatIsAheadOfTheClock(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{0: 0, lease.MaxStep: 0, lease.MaxStep + 1: lease.MaxStep + 1, -time.Hour: 0} {
		if got := Ahead(tick.Job{Mark: nine.Add(d)}, nine); got != want {
			t.Errorf("a mark %s ahead: %s", d, got)
		}
		if got := Ahead(tick.Job{Mark: nine.Add(d), Removed: nine}, nine); got != 0 {
			t.Errorf("a mark %s ahead of a job that was removed: %s", d, got)
		}
		if got := pausedAhead(tick.Pause{Since: nine.Add(d)}, nine); got != (want > 0) {
			t.Errorf("a pause that began %s ahead: %v", d, got)
		}
		ended := tick.Tick{At: nine, State: tick.Closed, Outcome: run.Missed, Claimed: nine, Ended: nine.Add(d)}
		if got := foreseen(ended, nine); got != (want > 0) {
			t.Errorf("a tick that ended %s ahead: foreseen %v", d, got)
		}
	}
}

// A tick belongs to the definition that was in force when it was due: from its first instant, up to that of the next.
// Holds: T11.
func TestTheDefinitionOfATick(t *testing.T) {
	one := &entry{Job: &Job{}, since: nine, former: &former{definition: tick.Job{Until: nine.Add(time.Hour)}}}
	two := &entry{Job: &Job{}, since: nine.Add(time.Hour), former: &former{definition: tick.Job{Until: nine.Add(2 * time.Hour)}}}
	now := &entry{Job: &Job{}, since: nine.Add(2 * time.Hour), past: []*entry{one, two}}
	one.former.main, two.former.main = now, now
	for d, want := range map[time.Duration]*entry{-1: now, 0: one, time.Hour - 1: one, time.Hour: two, 2*time.Hour - 1: two, 2 * time.Hour: now, 1000 * time.Hour: now} {
		if got := now.of(nine.Add(d)); got != want {
			t.Errorf("a tick %s after the first definition's beginning is of that from %s", d, got.since)
		}
	}
	for x, n := range map[*entry]int{one: 0, two: 1, now: 2} {
		if x.root() != now {
			t.Errorf("definition %d has another root", n)
		}
	}
	if (*entry)(nil).of(nine) != nil {
		t.Error("a job that is not known has a definition")
	}
}

// Of the servers each has another rank for a tick, and each is first as often as any other.
// Holds: T6.
func TestTheRanksOfServers(t *testing.T) {
	const servers, ticks = 5, 2000
	var all []lease.Nonce
	for range servers {
		all = append(all, lease.NewNonce())
	}
	first := [servers]int{}
	for n := range ticks {
		at, seen := nine.Add(time.Duration(n)*time.Minute), map[int]bool{}
		for i := range all {
			x := turn{peers: append([]lease.Nonce{all[i]}, append(append([]lease.Nonce{}, all[:i]...), all[i+1:]...)...)}
			rank := x.rank("app/j", at)
			if rank < 0 || rank >= servers || seen[rank] {
				t.Fatalf("server %d has rank %d, as another one", i, rank)
			}
			if seen[rank] = true; rank == 0 {
				first[i]++
			}
		}
	}
	for i, n := range first {
		if n < ticks/servers*7/10 || n > ticks/servers*13/10 {
			t.Errorf("server %d is first for %d of %d ticks", i, n, ticks)
		}
	}
	for _, few := range [][]lease.Nonce{nil, all[:1]} {
		if x := (turn{peers: few}); x.rank("app/j", nine) != 0 {
			t.Errorf("one of %d servers waits for others", len(few))
		}
	}
}

// A range is split around one of its ticks: the first, the last, or one between them. One that is made of other
// ticks is left alone.
// Holds: T12.
func TestHowARangeIsSplit(t *testing.T) {
	j := decided("0 * * * *", nil)
	at := func(h int) time.Time { return nine.Add(time.Duration(h) * time.Hour) }
	span := func(from, through, count int) tick.Tick {
		r := tick.Tick{At: at(from), Count: count}
		if through > from {
			r.Through = at(through)
		}
		return r
	}
	for _, c := range []struct {
		row  tick.Tick
		at   int
		want []tick.Tick // nil: it is left alone
	}{
		{span(0, 4, 5), 0, []tick.Tick{span(0, 0, 1), span(1, 4, 4)}},
		{span(0, 4, 5), 2, []tick.Tick{span(0, 1, 2), span(2, 2, 1), span(3, 4, 2)}},
		{span(0, 4, 5), 1, []tick.Tick{span(0, 0, 1), span(1, 1, 1), span(2, 4, 3)}},
		{span(0, 4, 5), 4, []tick.Tick{span(0, 3, 4), span(4, 4, 1)}},
		{span(0, 1, 2), 0, []tick.Tick{span(0, 0, 1), span(1, 1, 1)}}, {span(0, 1, 2), 1, []tick.Tick{span(0, 0, 1), span(1, 1, 1)}},
		{span(0, 0, 1), 0, []tick.Tick{span(0, 0, 1)}}, {span(0, 4, 4), 2, nil}, {span(0, 4, 6), 2, nil}, {span(0, 4, 5), 5, nil}, {span(0, 4, 5), -1, nil},
		{tick.Tick{At: at(0).Add(time.Minute), Through: at(4), Count: 4}, 2, nil}, {tick.Tick{At: at(0), Through: at(4).Add(time.Minute), Count: 5}, 2, nil},
	} {
		got, ok := partition(j, c.row, at(c.at))
		if ok != (c.want != nil) || len(got) != len(c.want) {
			t.Errorf("%+v at %d: %+v, %v", c.row, c.at, got, ok)
			continue
		}
		for i := range got {
			if g, w := got[i], c.want[i]; !g.At.Equal(w.At) || !g.Through.Equal(w.Through) || g.Count != w.Count {
				t.Errorf("%+v at %d, part %d: %+v, want %+v", c.row, c.at, i, g, w)
			}
		}
	}
}

// What a back-fill does with a tick, by what is known of it; forced, it leaves what is under way, and nothing in a
// pause.
// Holds: T12.
func TestWhatABackfillDecides(t *testing.T) {
	j := decided("0 * * * *", func(p *job.Policy) { p.UnlessBetween = []string{"03:00-04:00"} })
	again := decided("0 * * * *", func(p *job.Policy) { p.OnCrash, p.CatchUpWindow = job.CrashRerun, time.Hour })
	closed := func(o run.Outcome, reason string) tick.Tick {
		return tick.Tick{At: nine, State: tick.Closed, Outcome: o, Reason: reason}
	}
	now := nine.Add(30 * time.Minute)
	old := now.Add(day - retention)
	for _, c := range []struct {
		what                   string
		j                      *Job
		at                     time.Time
		row                    tick.Tick
		other                  bool // the row is of an earlier definition
		pause                  tick.Pause
		plain, skipped, forced Doing
	}{
		{"nothing", j, nine, tick.Tick{}, false, tick.Pause{}, Fill, Fill, Fill},
		{"as old as history goes", j, old, tick.Tick{}, false, tick.Pause{}, Fill, Fill, Fill},
		{"older", j, old.Add(-1), tick.Tick{}, false, tick.Pause{}, Leave, Leave, Again},
		{"in a pause", j, nine, tick.Tick{}, false, tick.Pause{Since: nine, Until: now}, Leave, Leave, Again},
		{"at the end of a pause", j, nine, tick.Tick{}, false, tick.Pause{Since: nine.Add(-1), Until: nine}, Fill, Fill, Fill},
		{"while it is paused", j, nine, tick.Tick{}, false, tick.Pause{Since: now}, Leave, Leave, Leave},
		{"outside its windows", j, nine.Add(-6 * time.Hour), tick.Tick{}, false, tick.Pause{}, Leave, Leave, Again},
		{"claimed", j, nine, tick.Tick{State: tick.Claimed}, false, tick.Pause{}, Leave, Leave, Leave},
		{"started", j, nine, tick.Tick{State: tick.Started}, false, tick.Pause{}, Leave, Leave, Leave},
		{"missed", j, nine, closed(run.Missed, ""), false, tick.Pause{}, Fill, Fill, Fill},
		{"missed by an earlier definition", j, nine, closed(run.Missed, ""), true, tick.Pause{}, Leave, Leave, Again},
		{"unavailable", j, nine, closed(run.Unavailable, ""), false, tick.Pause{}, Fill, Fill, Fill},
		{"skipped", j, nine, closed(run.Skipped, run.ReasonOverlap), false, tick.Pause{}, Leave, Fill, Again},
		{"skipped for its window", j, nine, closed(run.Skipped, run.ReasonWindow), false, tick.Pause{}, Leave, Leave, Again},
		{"paused", j, nine, closed(run.Paused, ""), false, tick.Pause{}, Leave, Leave, Again},
		{"succeeded", j, nine, closed(run.Succeeded, ""), false, tick.Pause{}, Leave, Leave, Again},
		{"failed", j, nine, closed(run.Failed, ""), false, tick.Pause{}, Leave, Leave, Again},
		{"lost", j, nine, closed(run.Lost, ""), false, tick.Pause{}, Leave, Leave, Again},
		{"lost, and a server runs it again", again, nine, closed(run.Lost, ""), false, tick.Pause{}, Leave, Leave, Leave},
	} {
		for want, b := range map[*Doing]*Backfill{&c.plain: {}, &c.skipped: {Skipped: true}, &c.forced: {Force: true, Skipped: false}} {
			s := b.decide(c.j, c.at, c.row, !c.other, c.pause, now)
			if s.Do != *want || (s.Do == Leave) != (s.Why != "") || !s.At.Equal(c.at) {
				t.Errorf("%s, %+v: %+v, want %s", c.what, *b, s, *want)
			}
		}
	}
	for after, want := range map[time.Duration]Doing{time.Hour: Leave, time.Hour + 1: Again} {
		if s := (&Backfill{Force: true}).decide(again, nine, closed(run.Lost, ""), true, tick.Pause{}, nine.Add(after)); s.Do != want {
			t.Errorf("lost %s ago, forced: %+v", after, s)
		}
	}
}
