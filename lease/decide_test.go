package lease

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
)

// stopped is a boot clock that a test sets.
type stopped struct{ boot time.Duration }

func (c *stopped) Boot() time.Duration { return c.boot }
func (c *stopped) Wall() time.Time     { return time.Unix(0, 0) }

// still is a Keeper whose clock stands still, and which sends nothing.
func still(t *testing.T) (*Keeper, *stopped) {
	t.Helper()
	c := &stopped{time.Hour}
	k, err := NewKeeper(Options{Store: struct{ Store }{}, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	return k, c
}

// sentAt is a lease of which the last answered request was sent at a boot instant.
func (k *Keeper) sentAt(sent time.Duration) *Lease {
	return &Lease{keeper: k, ref: Ref{Key: "k", Owner: Nonce{1}, Token: 7}, sent: sent, lost: make(chan struct{}), wanted: make(chan struct{})}
}

func (l *Lease) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// The numbers of rule L3, and a margin that holds exactly and no more.
// Holds: promise 25, L3.
func TestTheNumbersOfAMargin(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ ttl, term, kill, survives time.Duration }{
		{6 * time.Second, 3540 * ms, 5540 * ms, 2740 * ms}, {0, 8850 * ms, 13850 * ms, 6850 * ms},
		{15 * time.Second, 8850 * ms, 13850 * ms, 6850 * ms}, {30 * time.Second, 23700 * ms, 28700 * ms, 21700 * ms},
		{60 * time.Second, 53400 * ms, 58400 * ms, 51400 * ms},
	} {
		if m := MarginFor(c.ttl); m.TermAfter() != c.term || m.KillAfter() != c.kill || m.Outage() != c.survives {
			t.Errorf("ttl %s: TERM %s, KILL %s, survivable %s; want %s, %s, %s", c.ttl, m.TermAfter(), m.KillAfter(), m.Outage(), c.term, c.kill, c.survives)
		}
	}
	exact := Margin{TTL: 14 * time.Second, Heartbeat: 2 * time.Second, RPCTimeout: 2 * time.Second, LostGrace: 5 * time.Second, Kill: time.Second}
	for name, c := range map[string]struct {
		change func(*Margin)
		holds  bool
	}{
		"as it is":               {func(*Margin) {}, true},
		"a shorter ttl":          {func(m *Margin) { m.TTL-- }, false},
		"a longer heartbeat":     {func(m *Margin) { m.Heartbeat++ }, false},
		"a longer rpc timeout":   {func(m *Margin) { m.RPCTimeout++ }, false},
		"a longer grace":         {func(m *Margin) { m.LostGrace++ }, false},
		"a longer kill":          {func(m *Margin) { m.Kill++ }, false},
		"a clock that drifts":    {func(m *Margin) { m.Rho = 0.0001 }, false},
		"no grace and no kill":   {func(m *Margin) { m.LostGrace, m.Kill = 0, 0 }, true},
		"a negative grace":       {func(m *Margin) { m.LostGrace = -1 }, false},
		"a negative kill":        {func(m *Margin) { m.Kill = -1 }, false},
		"no heartbeat":           {func(m *Margin) { m.Heartbeat = 0 }, false},
		"no rpc timeout":         {func(m *Margin) { m.RPCTimeout = 0 }, false},
		"no ttl":                 {func(m *Margin) { *m = Margin{Heartbeat: 1, RPCTimeout: 1} }, false},
		"a clock that goes back": {func(m *Margin) { m.Rho = -0.0001 }, false},
		"no certain clock":       {func(m *Margin) { m.Rho, m.TTL = 1, time.Hour }, false},
	} {
		m := exact
		c.change(&m)
		if err := m.Check(); errors.Is(err, ErrMargin) == c.holds {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Work is told to stop at TERM and not before, and must be gone by the KILL that counts from the last answer: however
// late the silence is noticed, as after a suspend.
// Holds: promise 3, L2.
func TestASilenceEndsAtItsBound(t *testing.T) {
	k, _ := still(t)
	const sent = time.Hour
	m := k.margin
	for _, c := range []struct {
		after time.Duration // the last answered request was sent
		lost  bool
	}{{0, false}, {m.TermAfter() - 1, false}, {m.TermAfter(), true}, {m.TermAfter() + 1, true}, {m.KillAfter(), true}, {time.Hour, true}} {
		l := k.sentAt(sent)
		next := l.silent(sent + c.after)
		if l.isLost() != c.lost || c.lost != (l.Loss().Err != nil) {
			t.Errorf("%s after the last answer: lost %v, %+v", c.after, l.isLost(), l.Loss())
			continue
		}
		if !c.lost && next != sent+m.TermAfter() {
			t.Errorf("%s after the last answer it is looked at again at %s", c.after, next-sent)
		}
		if want := sent + m.KillAfter(); c.lost && l.Loss().Kill != want {
			t.Errorf("noticed %s after the last answer: to be gone by %s, want %s", c.after, l.Loss().Kill-sent, want-sent)
		}
	}
	term, kill := k.sentAt(sent).Deadlines()
	if safe := k.sentAt(sent).SafeUntil(); term != sent+m.TermAfter() || kill != sent+m.KillAfter() || safe != sent+m.Safe() {
		t.Errorf("the deadlines are %s, %s and %s", term-sent, kill-sent, safe-sent)
	}
}

// What leaves the work its margin, and what leaves it nothing: one after the other, the stricter one counts.
// Holds: L2, L5.
func TestWhatALossLeaves(t *testing.T) {
	k, _ := still(t)
	const sent = time.Hour
	own := func(b *Broken) Answer {
		return Answer{Status: Gone, Record: Record{Key: "k", Owner: Nonce{1}, Token: 7, Broken: b}}
	}
	happens := map[string]func(*Lease){
		"silence":   func(l *Lease) { l.silent(sent + k.margin.TermAfter()) },
		"close":     func(l *Lease) { l.abandoned() },
		"break":     func(l *Lease) { l.renewed(own(&Broken{By: "ann"}), sent+1) },
		"break now": func(l *Lease) { l.renewed(own(&Broken{By: "ann", Now: true}), sent+1) },
		"lapse":     func(l *Lease) { l.renewed(own(nil), sent+1) },
		"another": func(l *Lease) {
			l.renewed(Answer{Status: Gone, Record: Record{Key: "k", Owner: Nonce{2}, Token: 8}}, sent+1)
		},
		"an old token": func(l *Lease) {
			l.renewed(Answer{Status: Gone, Record: Record{Key: "k", Owner: Nonce{1}, Token: 8}}, sent+1)
		},
		"no record": func(l *Lease) { l.renewed(Answer{Status: Gone}, sent+1) },
	}
	margin := map[string]bool{"silence": true, "close": true, "break": true}
	for first, one := range happens {
		for second, two := range happens {
			l := k.sentAt(sent)
			one(l)
			err := l.Loss().Err
			two(l)
			want := time.Duration(0)
			if margin[first] && margin[second] {
				want = sent + k.margin.KillAfter()
			}
			if loss := l.Loss(); !l.isLost() || loss.Kill != want || !errors.Is(err, ErrLost) || loss.Err != err {
				t.Errorf("%s, then %s: %+v, want to be gone by %s, and told of the first", first, second, loss, want)
			}
		}
	}
	for name, end := range map[string]func(*Lease){"Late": func(l *Lease) { l.renewed(Answer{Status: Late}, sent+1) },
		"a choke": func(l *Lease) { l.choked() }, "its end": func(l *Lease) { l.ended = true; l.renewed(own(nil), sent+1); l.abandoned() }} {
		l := k.sentAt(sent)
		end(l)
		if l.isLost() || l.sent != sent {
			t.Errorf("%s loses it: %+v", name, l.Loss())
		}
	}
}

// A lease that cannot outlast its first heartbeat and the answer to it is not handed out.
// Holds: L1.
func TestWhatIsRoomyEnough(t *testing.T) {
	k, c := still(t)
	m := k.margin
	bound := c.boot + m.Heartbeat + m.RPCTimeout - m.TermAfter()
	for d, want := range map[time.Duration]bool{-1: false, 0: true, 1: true} {
		if got := k.sentAt(bound + d).roomy(); got != want {
			t.Errorf("sent %d ns after the bound: %v", d, got)
		}
	}
}

// A renewal goes out for what is half a heartbeat old, and for what the store refuses once per heartbeat. An answer
// ends the refusal.
// Holds: L4.
func TestWhatIsRenewed(t *testing.T) {
	k, c := still(t)
	half := k.margin.Heartbeat / 2
	l := k.sentAt(0)
	k.held[l.ref.Owner] = l
	sends := func(age time.Duration, heartbeat bool) bool {
		l.sent = c.boot - age
		return len(k.aged(c.boot, heartbeat)) > 0
	}
	for age, want := range map[time.Duration]bool{0: false, half - 1: false, half: true, half + 1: true, time.Hour: true} {
		if sends(age, false) != want || sends(age, true) != want {
			t.Errorf("of an age of %s, half a heartbeat is %s: %v", age, half, !want)
		}
	}
	l.choked()
	if sends(half, false) || !sends(half, true) {
		t.Error("what is refused goes out with the heartbeat, and never between")
	}
	l.renewed(Answer{Status: OK, Record: Record{Key: "k"}}, c.boot)
	if !sends(half, false) {
		t.Error("after an answer it is still taken for refused")
	}
	l.ended = true
	if sends(half, true) {
		t.Error("it is renewed after its end")
	}
}

// The end of a hold belongs to nobody: at Expires it is free, and an hour of a fast clock is told from drift.
// Holds: L1, L12.
func TestTheEndOfAHold(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for d, live := range map[time.Duration]bool{-1: false, 0: false, 1: true} {
		if got := (Record{Expires: now.Add(d)}).Live(now); got != live {
			t.Errorf("it ends %d ns after now: live %v", d, got)
		}
	}
	const ttl = 15 * time.Second
	for d, long := range map[time.Duration]bool{-time.Hour: false, ttl: false, ttl + MaxStep: false, ttl + MaxStep + 1: true} {
		if got := (Record{Expires: now.Add(d), TTL: ttl}).Overlong(now); got != long {
			t.Errorf("of %s it lasts %s more: overlong %v", ttl, d, got)
		}
	}
}

// Deadlines are moved by a hold-back from the tick that is due with its beginning, or whose time ends with it, to the
// one that is due just before its end.
// Holds: L9.
func TestTheBoundsOfAHoldBack(t *testing.T) {
	k, _ := still(t)
	zero := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) time.Time { return zero.Add(d) }
	const end = 10 * time.Second
	begin := end - k.margin.TTL
	k.sawHoldBack(at(0), at(end))
	for _, c := range []struct{ due, deadline, want time.Duration }{
		{begin - 5, begin - 1, begin - 1}, {begin - 5, begin, end}, {begin - 5, begin + 1, end + 1}, {begin, begin + 7, end + 7},
		{begin + 1, begin + 8, end + 7}, {end - 1, end + 6, end + 7}, {end, end + 7, end + 7}, {end + 1, end + 8, end + 8},
	} {
		if got := k.Extend(at(c.due), at(c.deadline)); !got.Equal(at(c.want)) {
			t.Errorf("due %s, until %s: %s, want %s", c.due, c.deadline, got.Sub(zero), c.want)
		}
	}
	k.sawHoldBack(at(end), at(end+k.margin.TTL)) // it follows at once
	if since, until := k.HeldBack(); !since.Equal(at(begin)) || !until.Equal(at(end+k.margin.TTL)) {
		t.Errorf("two that touch: %s to %s", since.Sub(zero), until.Sub(zero))
	}
	last := end + 2*k.margin.TTL + 1
	k.sawHoldBack(at(last-1), at(last))
	if since, until := k.HeldBack(); !since.Equal(at(last-k.margin.TTL)) || !until.Equal(at(last)) {
		t.Errorf("one that does not: %s to %s", since.Sub(zero), until.Sub(zero))
	}
}

// ticking is the store's time by samples that were answered at once.
type ticking struct {
	storeTime
	*stopped
	zero time.Time
	told int
}

func newTicking() *ticking {
	c := new(stopped)
	x := &ticking{storeTime: storeTime{clock: c}, stopped: c, zero: time.Unix(1_800_000_000, 0)}
	x.onSteady = func() { x.told++ }
	return x
}

// hears takes a sample at a boot instant of a store's clock that is off by so much, and returns the step that it
// shows.
func (x *ticking) hears(boot, off time.Duration) time.Duration {
	x.boot = boot
	var step time.Duration
	next := line{low: x.zero.Add(off), at: boot}
	x.mu.Lock()
	step = x.take(next)
	x.heard = boot
	x.mu.Unlock()
	return step
}

// off is how far the time that schedules follow is off.
func (x *ticking) off() time.Duration {
	t, _ := x.ticks()
	return t.Sub(x.zero.Add(x.boot))
}

// Up to five seconds are drift, and are followed at once. More is a step, which is told once and followed after a
// minute; a clock that comes back within it has not stepped, and its next step lasts its own minute.
// Holds: L12.
func TestAStepAndItsBounds(t *testing.T) {
	for _, sign := range []time.Duration{1, -1} {
		x := newTicking()
		x.hears(0, 0)
		if step := x.hears(time.Second, sign*MaxStep); step != 0 || x.off() != sign*MaxStep {
			t.Errorf("drift: a step of %s, schedules are off by %s", step, x.off())
		}
		x = newTicking()
		x.hears(0, 0)
		far := sign * (MaxStep + 1)
		if step := x.hears(10*time.Second, far); step != far || x.off() != 0 {
			t.Errorf("a step of %s, schedules are off by %s; want %s and 0", step, x.off(), far)
		}
		if step := x.hears(10*time.Second+StepQuiet-1, far); step != 0 || x.off() != 0 || x.steady() {
			t.Errorf("just before its minute: told of %s, off by %s, steady %v", step, x.off(), x.steady())
		}
		if step := x.hears(10*time.Second+StepQuiet, far); step != 0 || x.off() != far || !x.steady() {
			t.Errorf("after its minute: told of %s, off by %s, steady %v", step, x.off(), x.steady())
		}

		x = newTicking()
		for _, h := range []struct{ boot, off, step, schedules time.Duration }{
			{0, 0, 0, 0}, {10, far, far, 0}, {20, 0, 0, 0}, {30, far, far, 0}, {69, far, 0, 0}, {71, far, 0, 0}, {89, far, 0, 0},
			{91, far, 0, far}, {92, 0, -far, far}, {93, far, 0, far}, {160, far, 0, far}, {161, 0, -far, far}, {222, 0, 0, 0},
		} {
			if step := x.hears(h.boot*time.Second, h.off); step != h.step || x.off() != h.schedules {
				t.Errorf("at %d s: a step of %s, schedules are off by %s; want %s and %s", h.boot, step, x.off(), h.step, h.schedules)
			}
		}
	}
}

// A clock is steady a minute after it was first heard, and a minute after each step; that is told once.
// Holds: L12.
func TestWhenAClockIsSteady(t *testing.T) {
	x := newTicking()
	sample := func(boot, off time.Duration) { x.boot = boot; x.storeTime.sample(x.zero.Add(off+boot), boot, boot) }
	for _, h := range []struct {
		boot, off time.Duration
		steady    bool
		told      int
	}{
		{0, 0, false, 0}, {StepQuiet - 1, 0, false, 0}, {StepQuiet, 0, true, 1}, {2 * StepQuiet, 0, true, 1},
		{2*StepQuiet + 1, time.Hour, false, 1}, {3 * StepQuiet, time.Hour, false, 1}, {3*StepQuiet + 1, time.Hour, true, 2},
		{4 * StepQuiet, time.Hour, true, 2},
	} {
		if sample(h.boot, h.off); x.steady() != h.steady || x.told != h.told {
			t.Errorf("at %s: steady %v, told %d times; want %v, %d", h.boot, x.steady(), x.told, h.steady, h.told)
		}
	}
	x.tellAgain()
	sample(5*StepQuiet-1, time.Hour)
	if x.told != 2 {
		t.Errorf("told again before a minute has passed: %d times", x.told)
	}
	sample(5*StepQuiet, time.Hour)
	sample(6*StepQuiet, time.Hour)
	if x.told != 3 {
		t.Errorf("to be told again: %d times, want 3", x.told)
	}
}

// What a clock jumped over is not owed: after the instant at which it was and up to the one to which it went. A few
// such jumps are remembered, until the clock is back before them.
// Holds: L12.
func TestWhatAClockJumpedOver(t *testing.T) {
	const least = MaxJump + MaxStep
	jumps := func(by time.Duration) *ticking {
		x := newTicking()
		x.hears(0, 0)
		x.hears(1, by)
		x.hears(1+StepQuiet, by)
		return x
	}
	for by, want := range map[time.Duration]time.Duration{least: 0, least + 1: least + 1, -2 * least: 0} {
		if got := jumps(by).leapt(); got != want {
			t.Errorf("a step of %s: it jumped over %s, want %s", by, got, want)
		}
	}
	x := jumps(time.Hour)
	from := x.zero.Add(1 + StepQuiet)
	for d, want := range map[time.Duration]bool{0: false, 1: true, time.Hour: true, time.Hour + 1: false} {
		if got := x.jumped(from.Add(d)); got != want {
			t.Errorf("%s after its beginning: jumped over %v", d, got)
		}
	}
	back := 2 * (1 + StepQuiet)
	x.hears(back, 30*time.Minute)
	x.hears(back+StepQuiet, 30*time.Minute)
	if at := from.Add(45 * time.Minute); x.jumped(at) || !x.jumped(from.Add(time.Minute)) {
		t.Errorf("half of it has come again: %v is owed, %s in all was jumped over", x.jumped(at), x.leapt())
	}

	x = newTicking()
	x.hears(0, 0)
	boot, off := time.Duration(0), time.Duration(0)
	for range mostJumps + 2 {
		off += time.Hour
		boot += time.Second
		x.hears(boot, off)
		boot += StepQuiet
		x.hears(boot, off)
	}
	if got := x.leapt(); got != mostJumps*time.Hour {
		t.Errorf("of %d jumps of an hour %s are remembered", mostJumps+2, got)
	}
	if last := x.zero.Add(boot + off); !x.jumped(last) || x.jumped(x.zero.Add(time.Second+StepQuiet+time.Minute)) {
		t.Error("these are not the latest ones")
	}
}

// A more exact sample is kept for half a minute, and a request's not_after counts from the earliest that the store's
// clock can read.
// Holds: L1, L12.
func TestTheMostExactSampleIsKept(t *testing.T) {
	x := newTicking()
	width := func() time.Duration {
		_, within, _ := x.estimate()
		return 2 * within
	}
	sample := func(sent, received time.Duration) {
		x.boot = received
		x.storeTime.sample(x.zero.Add(received), sent, received) // the store read its clock when it answered
	}
	const wide = 2 * time.Second
	sample(0, 100*time.Millisecond)
	for _, c := range []struct{ sent, took, want time.Duration }{
		{time.Second, wide, 100 * time.Millisecond}, {5 * time.Second, 100*time.Millisecond - 2, 100*time.Millisecond - 2},
		{35*time.Second + 100*time.Millisecond - 2 - wide, wide, 100*time.Millisecond - 2},
		{35*time.Second + 100*time.Millisecond - 1 - wide, wide, wide},
	} {
		if sample(c.sent, c.sent+c.took); width() != c.want {
			t.Errorf("after a sample at %s that took %s: exact to %s, want %s", c.sent, c.took, width(), c.want)
		}
		if now, _ := x.now(); now.After(x.zero.Add(x.boot)) {
			t.Errorf("it is taken to be %s later than it may be", now.Sub(x.zero.Add(x.boot)))
		}
	}
}

// The time from one look to the next grows to half a second, and is drawn from its upper half, over a thousand draws.
func TestThePausesOfAWait(t *testing.T) {
	for _, c := range []struct {
		polls int
		exact time.Duration
	}{{0, 20 * time.Millisecond}, {1, 40 * time.Millisecond}, {23, 480 * time.Millisecond}, {24, 500 * time.Millisecond}, {1_000_000, 500 * time.Millisecond}} {
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for range 1000 {
			a := &attempt{polls: c.polls}
			d := a.poll()
			least, most = min(least, d), max(most, d)
		}
		if least < c.exact/2 || most > c.exact || most-least < c.exact/2*9/10 {
			t.Errorf("look %d: %s to %s, want %s to %s", c.polls+1, least, most, c.exact/2, c.exact)
		}
	}
}

// An acquire that comes too late is sent again twice, and no more.
// Holds: L1.
func TestHowOftenALateAcquireIsSentAgain(t *testing.T) {
	a := new(attempt)
	for n := range 5 {
		if got := a.again(fmt.Errorf("x: %w", errLate)); got != (n < 2) {
			t.Errorf("the %d. time: %v", n+1, got)
		}
		if a.again(ErrUnavailable) {
			t.Error("a store that does not answer is no late request")
		}
	}
}

// A callback that was given to OnRenew is called until it is forgotten, and no other one is forgotten with it.
func TestWhoForgetsARenewalForgetsItsOwn(t *testing.T) {
	k, c := still(t)
	l := k.sentAt(c.boot)
	var calls [3]int
	renewed := func(want ...int) {
		t.Helper()
		l.renewed(Answer{Status: OK, Record: Record{Key: "k"}}, c.boot)
		for i := range want {
			if calls[i] != want[i] {
				t.Errorf("calls %v, want %v", calls, want)
			}
		}
	}
	first := l.OnRenew(func() { calls[0]++ })
	second := l.OnRenew(func() { calls[1]++ })
	renewed(1, 1, 0)
	first()
	l.OnRenew(func() { calls[2]++ })
	renewed(1, 2, 1)
	first()
	renewed(1, 3, 2)
	second()
	renewed(1, 3, 3)
}

// A lease that has ended is none of its Keeper's any more: nothing of it stays, and the heartbeat ends with the last
// one.
func TestWhatHasEndedIsForgotten(t *testing.T) {
	k, _ := still(t)
	one, two := k.sentAt(0), k.sentAt(0)
	two.ref.Owner = Nonce{2}
	for _, l := range []*Lease{one, two} {
		k.held[l.ref.Owner] = l
	}
	one.Drop()
	if all := k.leases(); len(all) != 1 || all[0] != two || !k.alive() {
		t.Errorf("%d leases are left of two, of which one has ended", len(all))
	}
	two.Drop()
	if all := k.leases(); len(all) != 0 || k.alive() {
		t.Errorf("%d leases are left of two that have ended", len(all))
	}
}
