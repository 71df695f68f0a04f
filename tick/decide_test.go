package tick_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

const µs = time.Microsecond

// Each request is refused one microsecond beyond its bound, and not at it.
// Holds: L1, T4, T8.
func TestVerdictsAtTheirBounds(t *testing.T) {
	mine := lease.Ref{Key: "s", Owner: lease.Nonce{1}, Token: 1}
	job := tick.Job{Generation: 1, Mark: noon.Add(-time.Hour)}
	claim := func(change func(*tick.ClaimRequest, *tick.Facts)) tick.Status {
		q, f := tick.ClaimRequest{Job: "j", At: noon, Lease: mine, Generation: 1}, tick.Facts{Now: noon, Job: job, Live: true}
		change(&q, &f)
		return tick.JudgeClaim(q, f).Status
	}
	for _, c := range []struct {
		what string
		is   func(d time.Duration) tick.Status // one bound, so much before or after it
		want [3]tick.Status                    // 1 µs before, at, and 1 µs after
	}{
		{"a claim's not_after", func(d time.Duration) tick.Status {
			return claim(func(q *tick.ClaimRequest, _ *tick.Facts) { q.NotAfter = noon.Add(-d) })
		}, [3]tick.Status{tick.Won, tick.Won, tick.Late}},
		{"a take's", func(d time.Duration) tick.Status {
			row := tick.Tick{At: noon, State: tick.Claimed, Lease: lease.Ref{Key: "x"}}
			return tick.JudgeTake(tick.TakeRequest{At: noon, From: row.Lease, Lease: mine, NotAfter: noon.Add(-d)}, tick.Facts{Now: noon, Tick: row, Live: true}).Status
		}, [3]tick.Status{tick.Won, tick.Won, tick.Late}},
		{"a start's", func(d time.Duration) tick.Status {
			return tick.JudgeStart(tick.StartRequest{Run: run.Record{ID: "r"}, Lease: mine, NotAfter: noon.Add(-d)}, tick.Facts{Now: noon, Live: true}).Status
		}, [3]tick.Status{tick.Won, tick.Won, tick.Late}},
		{"the mark", func(d time.Duration) tick.Status {
			return claim(func(q *tick.ClaimRequest, f *tick.Facts) { f.Job.Mark = noon.Add(d) })
		}, [3]tick.Status{tick.Won, tick.Settled, tick.Settled}},
		{"the store's clock", func(d time.Duration) tick.Status {
			return claim(func(q *tick.ClaimRequest, _ *tick.Facts) { q.At, q.Ahead = noon.Add(tick.Ahead+d), tick.Ahead })
		}, [3]tick.Status{tick.Won, tick.Won, tick.Early}},
		{"the beginning of a pause", func(d time.Duration) tick.Status {
			return claim(func(q *tick.ClaimRequest, f *tick.Facts) { f.Job.Pause.Since = noon.Add(-d) })
		}, [3]tick.Status{tick.Won, tick.Paused, tick.Paused}},
		{"the end of a pause", func(d time.Duration) tick.Status {
			return claim(func(q *tick.ClaimRequest, f *tick.Facts) {
				f.Job.Pause = tick.Pause{Since: noon.Add(-time.Minute), Until: noon.Add(-d)}
			})
		}, [3]tick.Status{tick.Paused, tick.Won, tick.Won}},
	} {
		for i, want := range c.want {
			if got := c.is(time.Duration(i-1) * µs); got != want {
				t.Errorf("%s, %d µs after it: %v, want %v", c.what, i-1, got, want)
			}
		}
	}
}

// A pause has its first instant, and not its last. It stops what is due in it, and what would begin in it.
// Holds: T8, L12.
func TestTheBoundsOfAPause(t *testing.T) {
	ended := tick.Pause{Since: noon, Until: noon.Add(time.Hour)}
	open := tick.Pause{Since: noon}
	for _, c := range []struct {
		p    tick.Pause
		at   time.Duration // after noon
		want bool
	}{
		{tick.Pause{}, 0, false}, {ended, -µs, false}, {ended, 0, true}, {ended, time.Hour - µs, true}, {ended, time.Hour, false},
		{open, -µs, false}, {open, 0, true}, {open, 1000 * time.Hour, true}, {tick.Pause{Until: noon}, -µs, false},
		{tick.Pause{Since: noon, Until: noon}, 0, false},
	} {
		at, away := noon.Add(c.at), noon.Add(-time.Hour)
		if c.p.Covers(at) != c.want || c.p.Stops(at, away) != c.want || c.p.Stops(away, at) != c.want {
			t.Errorf("%+v at %s: covers %v, stops the tick %v, the beginning %v; want %v", c.p, c.at, c.p.Covers(at), c.p.Stops(at, away), c.p.Stops(away, at), c.want)
		}
	}
	for _, c := range []struct {
		p    tick.Pause
		now  time.Duration
		want bool
	}{
		{open, -µs, true}, {open, 0, false}, {ended, -µs, false}, {tick.Pause{Since: noon, Until: noon.Add(1), Resumed: true}, 0, true},
		{tick.Pause{Since: noon, Until: noon, Resumed: true}, 0, false}, {tick.Pause{Since: noon, Until: noon.Add(1)}, 0, false},
	} {
		if got := c.p.Ahead(noon.Add(c.now)); got != c.want {
			t.Errorf("%+v is ahead of %s: %v", c.p, c.now, got)
		}
	}
}

// A pause that continues keeps its beginning; one that has ended, at this very instant too, is another one.
// Holds: T8.
func TestWhatARequestMakesOfAPause(t *testing.T) {
	on := tick.Pause{Since: noon, By: "ann", Why: "a"}
	until := tick.Pause{Since: noon, Until: noon.Add(time.Hour), By: "ann"}
	ask := tick.PauseRequest{By: "bob", Why: "b", Until: noon.Add(9 * time.Hour)}
	for _, c := range []struct {
		p    tick.Pause
		r    tick.PauseRequest
		at   time.Duration
		want tick.Pause
	}{
		{tick.Pause{}, ask, 0, tick.Pause{Since: noon, Until: ask.Until, By: "bob", Why: "b"}},
		{on, ask, time.Minute, tick.Pause{Since: noon, Until: ask.Until, By: "bob", Why: "b"}},
		{until, ask, time.Hour - µs, tick.Pause{Since: noon, Until: ask.Until, By: "bob", Why: "b"}},
		{until, ask, time.Hour, tick.Pause{Since: noon.Add(time.Hour), Until: ask.Until, By: "bob", Why: "b"}},
		{on, tick.PauseRequest{Resume: true}, time.Minute, tick.Pause{Since: noon, Until: noon.Add(time.Minute), Resumed: true, By: "ann", Why: "a"}},
		{until, tick.PauseRequest{Resume: true}, time.Hour, until},
		{tick.Pause{}, tick.PauseRequest{Resume: true}, 0, tick.Pause{}},
		{tick.Pause{Since: noon, Until: noon.Add(time.Hour), Resumed: true}, ask, time.Minute, tick.Pause{Since: noon, Until: ask.Until, By: "bob", Why: "b"}},
	} {
		if got := c.r.Apply(c.p, noon.Add(c.at)); got != c.want {
			t.Errorf("%+v after %s of %+v: %+v, want %+v", c.r, c.at, c.p, got, c.want)
		}
	}
}

// For each outcome: whether the tick may be owed, may be run after all, and may have ended by a clock that was fast.
// Holds: T3, T8, L12.
func TestWhatIsStillOwed(t *testing.T) {
	claimed := lease.Ref{Key: "s", Owner: lease.Nonce{1}}
	for _, c := range []struct {
		outcome run.Outcome
		reason  string
		owed    bool
		fill    bool
		ahead   bool
	}{
		{run.Succeeded, "", false, false, false}, {run.Failed, "", false, false, false}, {run.TimedOut, "", false, false, false},
		{run.Replaced, "", false, false, false}, {run.Canceled, "", true, false, false}, {run.Lost, "", true, false, false},
		{run.Crashed, "", true, false, false}, {run.Missed, "", true, true, true}, {run.Unavailable, "", true, true, true},
		{run.Paused, "", true, false, true}, {run.Skipped, run.ReasonWindow, true, true, true},
		{run.Skipped, run.ReasonOverlap, false, true, false},
	} {
		row := tick.Tick{At: noon, State: tick.Closed, Lease: claimed, Outcome: c.outcome, Reason: c.reason, Claimed: noon, Ended: noon.Add(µs)}
		if row.Owed() != c.owed || row.Fillable() != c.fill || row.Foreseen(noon) != c.ahead {
			t.Errorf("%s %s: owed %v, fillable %v, foreseen %v; want %v, %v, %v", c.outcome, c.reason, row.Owed(), row.Fillable(), row.Foreseen(noon), c.owed, c.fill, c.ahead)
		}
		for what, change := range map[string]func(*tick.Tick){
			"its end has come": func(r *tick.Tick) { r.Ended = noon }, "it ran": func(r *tick.Tick) { r.RunID = "r" },
			"it was run again": func(r *tick.Tick) { r.Reruns = 1 }, "nobody claimed it": func(r *tick.Tick) { r.Claimed = time.Time{} },
			"it has not ended": func(r *tick.Tick) { r.State = tick.Started },
		} {
			r := row
			if change(&r); r.Foreseen(noon) {
				t.Errorf("%s %s: foreseen, although %s", c.outcome, c.reason, what)
			}
		}
		for _, state := range []tick.State{tick.Claimed, tick.Started} {
			r := row
			if r.State = state; r.Owed() || r.Fillable() {
				t.Errorf("%s %s: owed or fillable, although it is %s", c.outcome, c.reason, state)
			}
		}
		unclaimed, many := row, row
		if unclaimed.Lease = (lease.Ref{}); unclaimed.Owed() {
			t.Errorf("%s %s: owed, although nobody claimed it", c.outcome, c.reason)
		}
		if many.Through = noon.Add(time.Hour); many.Fillable() {
			t.Errorf("%s %s: a range is fillable", c.outcome, c.reason)
		}
	}
}

// A row accounts for its own instant, and a range for its first, its last and those between them, in whatever order
// the rows come, and where they overlap.
// Holds: promise 10, T4.
func TestWhatARowAccountsFor(t *testing.T) {
	at := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	var due []time.Time
	for n := range 12 {
		due = append(due, at(n))
	}
	for _, c := range []struct {
		rows [][2]int // from, through
		left string
	}{
		{nil, "[0 1 2 3 4 5 6 7 8 9 10 11]"}, {[][2]int{{0, 0}, {11, 11}}, "[1 2 3 4 5 6 7 8 9 10]"}, {[][2]int{{3, 5}}, "[0 1 2 6 7 8 9 10 11]"},
		{[][2]int{{0, 11}}, "[]"}, {[][2]int{{-5, 0}, {11, 30}}, "[1 2 3 4 5 6 7 8 9 10]"}, {[][2]int{{-5, -1}, {12, 30}}, "[0 1 2 3 4 5 6 7 8 9 10 11]"},
		{[][2]int{{1, 8}, {2, 3}}, "[0 9 10 11]"}, {[][2]int{{2, 3}, {2, 9}}, "[0 1 10 11]"}, {[][2]int{{4, 6}, {6, 8}, {8, 8}}, "[0 1 2 3 9 10 11]"},
		{[][2]int{{5, 4}}, "[0 1 2 3 4 6 7 8 9 10 11]"},
	} {
		var rows []tick.Tick
		for _, r := range c.rows {
			row := tick.Tick{At: at(r[0])}
			if r[1] != r[0] {
				row.Through = at(r[1])
			}
			rows = append(rows, row)
		}
		for range 2 {
			left := []int{}
			for _, one := range tick.Unaccounted(due, rows) {
				left = append(left, int(one.Sub(noon)/time.Minute))
			}
			if fmt.Sprint(left) != c.left {
				t.Errorf("%v leave %v, want %s", c.rows, left, c.left)
			}
			n := 0
			for _, gap := range tick.Unclaimed("j", due, rows, run.Missed, "why") {
				n += gap.Count
				for _, one := range []time.Time{gap.At, gap.Last()} {
					if !slices.Contains(tick.Unaccounted(due, rows), one) {
						t.Errorf("%v: the gap from %s to %s is none", c.rows, gap.At, gap.Last())
					}
				}
			}
			if n != len(left) {
				t.Errorf("%v: the gaps have %d ticks, want %d", c.rows, n, len(left))
			}
			slices.Reverse(rows)
		}
	}
}

// Settling goes part by part, however many there are; each goes on from the mark that the one before it has set, and
// a part that was held back, refused or not answered is the last one.
// Holds: promise 26, T4.
func TestASettlingGoesPartByPart(t *testing.T) {
	at := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	const rows = 7
	ask := tick.SettleRequest{Job: "j", From: at(-1), To: at(100), Generation: 3}
	for n := range rows {
		ask.Rows = append(ask.Rows, tick.Tick{At: at((n * 3) % rows)}) // not in their order
	}
	broken := fmt.Errorf("it broke")
	for _, c := range []struct {
		most  int
		stops int // the part that does not get through; 0: none
		how   string
		parts string // the rows of each
	}{
		{1, 0, "", "[1 1 1 1 1 1 1]"}, {3, 0, "", "[3 3 1]"}, {rows - 1, 0, "", "[6 1]"}, {rows, 0, "", "[7]"}, {100, 0, "", "[7]"},
		{3, 1, "refused", "[3]"}, {3, 2, "refused", "[3 3]"}, {3, 2, "held back", "[3 3]"}, {3, 2, "broken", "[3 3]"}, {3, 3, "broken", "[3 3 1]"},
	} {
		var parts []int
		mark, next := ask.From, 0
		first, err := ask.InParts(c.most, func(r tick.SettleRequest) (tick.Answer, time.Time, error) {
			parts = append(parts, len(r.Rows))
			if !r.From.Equal(mark) || r.Job != "j" || r.Generation != 3 {
				t.Errorf("by %d, part %d: from %s, want %s: %+v", c.most, len(parts), r.From, mark, r)
			}
			for _, row := range r.Rows {
				if !row.At.Equal(at(next)) || row.At.After(r.To) {
					t.Errorf("by %d, part %d: the row of %s, up to %s; want that of %s", c.most, len(parts), row.At, r.To, at(next))
				}
				next++
			}
			want := at(100)
			if next < rows {
				want = at(next).Add(-µs)
			}
			if !r.To.Equal(want) {
				t.Errorf("by %d, part %d: up to %s, want %s", c.most, len(parts), r.To, want)
			}
			a := tick.Answer{Status: tick.Won, Now: at(len(parts))}
			mark = r.To
			switch {
			case c.stops != len(parts):
			case c.how == "refused":
				a.Status = tick.Taken
			case c.how == "held back":
				return a, r.To.Add(-µs), nil
			case c.how == "broken":
				return tick.Answer{}, time.Time{}, broken
			}
			return a, mark, nil
		})
		if fmt.Sprint(parts) != c.parts || (err != nil) != (c.how == "broken") {
			t.Errorf("by %d, part %d %s: parts of %v, %v; want %s", c.most, c.stops, c.how, parts, err, c.parts)
		}
		if c.stops != 1 && (first.Status != tick.Won || !first.Now.Equal(at(1))) {
			t.Errorf("by %d: the answer is %+v, and not the first part's", c.most, first)
		}
	}
}

// A step is over when it has read fewer rows than it may, whatever of them it returns; the next one goes on after the
// last that it has read.
// Holds: promise 26.
func TestAStepThatIsFullGoesOn(t *testing.T) {
	rows := make([]tick.Tick, 3)
	for i := range rows {
		rows[i] = tick.Tick{Job: "j", At: noon.Add(time.Duration(i) * time.Minute)}
	}
	for limit, more := range map[int]bool{3: true, 4: false, 500: false} {
		for _, kept := range []int{0, 1, 3} {
			f := tick.Ended(rows, limit, func(r tick.Tick) bool { return r.At.Before(rows[0].At.Add(time.Duration(kept) * time.Minute)) })
			if len(f.Ticks) != kept || f.More() != more || more && f.Next != rows[2].Spot() {
				t.Errorf("a step of %d rows of %d, %d kept: %+v", len(rows), limit, kept, f)
			}
		}
	}
	if f := tick.Ended(nil, 500, func(tick.Tick) bool { return true }); f.More() {
		t.Errorf("a step without rows: %+v", f)
	}
	for limit, want := range map[int]int{-1: tick.MaxRows, 0: tick.MaxRows, 1: 1, tick.MaxRows - 1: tick.MaxRows - 1, tick.MaxRows: tick.MaxRows, tick.MaxRows + 1: tick.MaxRows} {
		if got := []int{tick.Look{Limit: limit}.Max(), tick.OwedLook{Limit: limit}.Max(), tick.JobQuery{Limit: limit}.Max()}; !slices.Equal(got, []int{want, want, want}) {
			t.Errorf("of %d asked for: %v", limit, got)
		}
	}
}

// The range of a name or a prefix has exactly what begins so.
func TestTheRangeOfNames(t *testing.T) {
	in := func(from, to, name string) bool { return name >= from && (to == "" || name < to) }
	for _, c := range []struct {
		l   tick.Look
		yes []string
		no  []string
	}{
		{tick.Look{}, []string{"", "a", "\xff\xff"}, nil},
		{tick.Look{Job: "a/b"}, []string{"a/b"}, []string{"a/a", "a/b!", "a/b\x01", "a/c"}},
		{tick.Look{Prefix: "a/"}, []string{"a/", "a/\x00", "a/\xff\xff"}, []string{"a", "a.", "a0", "b/"}},
		{tick.Look{Prefix: "a\xff"}, []string{"a\xff", "a\xff\xff"}, []string{"a\xfe", "b", "a"}},
		{tick.Look{Prefix: "\xff"}, []string{"\xff", "\xff\xff"}, []string{"\xfe", "a"}},
	} {
		from, to := c.l.Range()
		for _, name := range c.yes {
			if !in(from, to, name) {
				t.Errorf("%+v: %q is out", c.l, name)
			}
		}
		for _, name := range c.no {
			if in(from, to, name) {
				t.Errorf("%+v: %q is in", c.l, name)
			}
		}
	}
	for job, want := range map[string]string{"app/j": "app", "app/j/k": "app", "/j": "", "j": "", "": ""} {
		if got := tick.AppOf(job); got != want {
			t.Errorf("the app of %q is %q", job, got)
		}
	}
}

// Whether a row may be taken back, and a mark lowered, at and beside each bound.
// Holds: L12.
func TestWhatMayBeTakenBack(t *testing.T) {
	r := tick.UnsettleRequest{Job: "j", From: noon.Add(time.Hour), To: noon}
	for _, c := range []struct {
		to, from, mark time.Duration
		want           bool
	}{
		{0, time.Hour, time.Hour, true}, {0, time.Hour, time.Hour + µs, false}, {0, µs, µs, true}, {0, 0, 0, true}, {-µs, 0, 0, false},
		{-tick.MaxBack, time.Hour, time.Hour, true}, {-tick.MaxBack - µs, time.Hour, time.Hour, false}, {2 * time.Hour, time.Hour, time.Hour, false},
		{time.Hour, time.Hour, time.Hour, true}, {-time.Hour, -time.Hour, -time.Hour, true},
	} {
		q := tick.UnsettleRequest{From: noon.Add(c.from), To: noon.Add(c.to)}
		if got := q.Allows(tick.Job{Mark: noon.Add(c.mark)}, noon); got != c.want {
			t.Errorf("from %s to %s, with the mark at %s: %v", c.from, c.to, c.mark, got)
		}
	}
	row := tick.Tick{At: noon.Add(µs), State: tick.Closed, Outcome: run.Missed}
	for what, c := range map[string]struct {
		change func(*tick.Tick)
		want   bool
	}{
		"as it is": {func(*tick.Tick) {}, true}, "at the new mark": {func(t *tick.Tick) { t.At = noon }, false},
		"unfinished": {func(t *tick.Tick) { t.State = tick.Claimed }, false}, "a range by now": {func(t *tick.Tick) { t.Through = noon.Add(time.Hour) }, false},
		"claimed":                  {func(t *tick.Tick) { t.Claimed = noon }, false},
		"claimed, and ended ahead": {func(t *tick.Tick) { t.Claimed, t.Ended = noon, noon.Add(µs) }, true},
		"claimed, and ended now":   {func(t *tick.Tick) { t.Claimed, t.Ended = noon, noon }, false},
	} {
		x := row
		if c.change(&x); r.Takes(x, time.Time{}, noon) != c.want {
			t.Errorf("%s: taken back %v", what, !c.want)
		}
	}
}
