package fleet_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// A process of a test: it is on record, under a lease of its own.
type process struct {
	*fleet.Reporter
	t      *testing.T
	keeper *lease.Keeper
	stop   func()

	mu     sync.Mutex // virtual time orders nothing: the reporter reads what a test changes
	lease  *lease.Lease
	is     fleet.Process
	refuse error
}

// report starts a process, whose clock is fast by so much.
func report(t *testing.T, b *memory.Backend, is fleet.Process, fast time.Duration) *process {
	t.Helper()
	s, c := b.Store(), clock.Virtual{Start: time.Now(), WallOffset: fast}
	k, err := lease.NewKeeper(lease.Options{Store: s.Leases, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, keeper: k, is: is}
	p.take()
	p.Reporter = fleet.NewReporter(fleet.ReporterOptions{Store: s.Fleet, Keeper: k, TimeOfDay: c.Wall, Log: slog.New(slog.DiscardHandler),
		Describe: func(context.Context) (fleet.Process, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			is := p.is
			is.Lease = p.lease.Ref()
			return is, p.refuse
		}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	p.stop = func() { cancel(); <-done }
	t.Cleanup(func() { p.stop(); k.Close() })
	synctest.Wait()
	return p
}

func (p *process) take() {
	p.t.Helper()
	l, err := p.keeper.Acquire(p.t.Context(), lease.Want{Key: lease.OnceKey()})
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lease = l
}

func (p *process) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func read(t *testing.T, b *memory.Backend) fleet.Census {
	t.Helper()
	s := b.Store()
	c, err := fleet.Read(t.Context(), s.Fleet, s.Leases)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// states are those of all members, by their hosts.
func states(c fleet.Census) map[string]fleet.State {
	all := map[string]fleet.State{}
	for _, m := range c.Members {
		all[m.Host] = m.State
	}
	return all
}

func TestWhatBecameOfEachProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		report(t, b, fleet.Process{Host: "up", App: "shop"}, 0)
		draining := report(t, b, fleet.Process{Host: "draining", App: "shop"}, 0)
		draining.change(func() { draining.is.Draining = true })
		draining.Changed()
		ended := report(t, b, fleet.Process{Host: "ended", App: "shop"}, 0)
		ended.stop()
		ended.End(t.Context())
		gone := report(t, b, fleet.Process{Host: "gone", App: "shop"}, 0)
		died := time.Now()
		gone.stop()
		gone.lease.Drop()
		time.Sleep(lease.DefaultTTL + time.Second)
		c := read(t, b)
		want := map[string]fleet.State{"up": fleet.Up, "draining": fleet.Draining, "ended": fleet.Ended, "gone": fleet.Gone}
		for host, state := range states(c) {
			if state != want[host] {
				t.Errorf("%s is %s", host, state)
			}
		}
		for _, m := range c.Members {
			if m.Alive() != (m.Host == "up" || m.Host == "draining") {
				t.Errorf("%s is alive: %t", m.Host, m.Alive())
			}
			if m.Host == "gone" && m.Heard.Sub(died).Abs() > time.Second {
				t.Errorf("it was heard of %s after it died", m.Heard.Sub(died))
			}
			if m.Host == "up" && c.Now.Sub(m.Heard) > lease.DefaultTTL/2 {
				t.Errorf("its lease was renewed, and it was heard of %s ago", c.Now.Sub(m.Heard))
			}
		}
	})
}

// Only the very hold that a process reported tells what became of it.
func TestAnotherHoldTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p := report(t, b, fleet.Process{Host: "a"}, 0)
		s := b.Store()
		for _, change := range []func(*lease.Ref){func(r *lease.Ref) { r.Token++ }, func(r *lease.Ref) { r.Owner[0]++ }, func(r *lease.Ref) { r.Key = lease.OnceKey() },
			func(r *lease.Ref) { r.Key = "" }} {
			is := fleet.Process{ID: lease.NewNonce(), Host: "b", Lease: p.lease.Ref()}
			change(&is.Lease)
			if err := s.Fleet.Report(t.Context(), is); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range read(t, b).Members {
			if (m.Host == "a") != (m.State == fleet.Up) {
				t.Errorf("%+v", m)
			}
		}
	})
}

// A lease that lasts as long as its process does, as in a directory, is no proof that the process is at work.
func TestASilentProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p := report(t, b, fleet.Process{Host: "a", App: "shop"}, 0)
		last := read(t, b).Members[0].Seen
		p.stop()
		time.Sleep(2 * fleet.Every)
		if m := read(t, b).Members[0]; m.State != fleet.Up {
			t.Errorf("one report is late: %s", m.State)
		}
		time.Sleep(2 * fleet.Every)
		c := read(t, b)
		if m := c.Members[0]; m.State != fleet.Silent || !m.Heard.Equal(last) || !m.Alive() || len(c.Serving("shop").Up) > 0 || len(c.Current()) != 1 {
			t.Errorf("%+v", m)
		}
	})
}

// A store that forgot everything knows a process again a minute later, and at once under its next lease. A process is
// told apart from its past by its lease alone.
func TestAProcessComesBackOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p := report(t, b, fleet.Process{Host: "a"}, 0)
		since := read(t, b).Members[0].Since
		if m := read(t, b).Members[0]; !m.Regained.IsZero() {
			t.Errorf("it has had one lease only: %+v", m)
		}
		time.Sleep(fleet.Every / 3)
		b.Forget()
		if n := len(read(t, b).Members); n != 0 {
			t.Fatalf("%d members after a loss", n)
		}
		time.Sleep(lease.DefaultTTL + time.Second)
		p.lease.Drop()
		p.take()
		regained := time.Now()
		if n := len(read(t, b).Members); n != 0 {
			t.Fatalf("%d members before its report", n)
		}
		p.Under(p.lease.Ref())
		synctest.Wait()
		if all := read(t, b).Members; len(all) != 1 || all[0].State != fleet.Up || !all[0].Since.Equal(since) || all[0].Regained.Sub(regained).Abs() > time.Second {
			t.Fatalf("%+v", all)
		}
		before := read(t, b).Members[0].Seen
		p.Under(p.lease.Ref())
		synctest.Wait()
		if seen := read(t, b).Members[0].Seen; !seen.Equal(before) {
			t.Error("it reported although nothing had changed")
		}
		b.Forget()
		time.Sleep(fleet.Every)
		synctest.Wait()
		if n := len(read(t, b).Members); n != 1 {
			t.Errorf("%d members a minute after a loss", n)
		}
	})
}

// What cannot be described, or not be stored, is repeated soon, and delays nothing.
func TestAReportIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		p := report(t, b, fleet.Process{Host: "a"}, -3*time.Second)
		p.change(func() { p.is.Jobs, p.refuse = 7, errors.New("not now") })
		p.Changed()
		synctest.Wait()
		if got := read(t, b).Members[0]; got.Jobs != 0 || got.ClockOffset == nil || *got.ClockOffset != -3*time.Second {
			t.Errorf("%+v", got)
		}
		p.change(func() { p.refuse = nil })
		time.Sleep(10 * time.Second)
		if got := read(t, b).Members[0]; got.Jobs != 7 {
			t.Errorf("%+v", got)
		}
	})
}

// A process that never came on record has no end to report; nor has one without a store anything.
func TestNothingToReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		k, err := lease.NewKeeper(lease.Options{Store: b.Store().Leases, Clock: clock.Virtual{Start: time.Now()}})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		for _, s := range []fleet.Store{nil, b.Store().Fleet} {
			r := fleet.NewReporter(fleet.ReporterOptions{Store: s, Keeper: k, Log: slog.New(slog.DiscardHandler),
				Describe: func(context.Context) (fleet.Process, error) { return fleet.Process{}, errors.New("never") }})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			r.Run(ctx)
			cancel()
			r.End(t.Context())
		}
		if all := read(t, b).Members; len(all) != 0 {
			t.Errorf("%+v", all)
		}
	})
}

func member(host, app string, state fleet.State, heard int, queues ...string) fleet.Member {
	at := time.Date(2026, 1, 1, 0, heard, 0, 0, time.UTC)
	return fleet.Member{Process: fleet.Process{Host: host, App: app, Queues: queues, Since: at.Add(-time.Hour)}, State: state, Heard: at}
}

func TestWhoServesWhat(t *testing.T) {
	c := fleet.Census{Members: []fleet.Member{
		member("a", "shop", fleet.Up, 9), member("b", "shop", fleet.Gone, 8), member("c", "old", fleet.Ended, 5), member("d", "old", fleet.Gone, 7),
		member("e", "old", fleet.Gone, 6), member("f", "", fleet.Up, 9, "mail", "x"), member("g", "drains", fleet.Draining, 9),
	}}
	for _, q := range []struct {
		got  fleet.Service
		up   string
		last string
	}{
		{c.Serving("shop"), "a", "b"}, {c.Serving("old"), "", "d"}, {c.Serving("none"), "", ""}, {c.Serving(""), "", ""},
		{c.Serving("drains"), "", "g"},
	} {
		up, last := "", ""
		for _, m := range q.got.Up {
			up += m.Host
		}
		if q.got.Last != nil {
			last = q.got.Last.Host
		}
		if up != q.up || last != q.last {
			t.Errorf("up %q, last %q, want %q and %q", up, last, q.up, q.last)
		}
	}
}

// Who ended is over, and so is who is gone and was replaced; each process replaces one.
func TestCurrentMembers(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	of := func(name, host string, state fleet.State, since, heard int, queues ...string) fleet.Member {
		return fleet.Member{Process: fleet.Process{ID: lease.NewNonce(), Host: host, Version: name, Queues: queues, Since: at(since)}, State: state, Heard: at(heard)}
	}
	for name, c := range map[string]struct {
		members []fleet.Member
		want    string
	}{
		"restarted after a crash": {[]fleet.Member{of("new", "a", fleet.Up, 4, 9), of("old", "a", fleet.Gone, 1, 3)}, "new"},
		"crashes all day long": {[]fleet.Member{of("new", "a", fleet.Up, 8, 9), of("3", "a", fleet.Gone, 6, 7), of("2", "a", fleet.Gone, 4, 5),
			of("1", "a", fleet.Gone, 2, 3)}, "new"},
		"crashed for good":          {[]fleet.Member{of("2", "a", fleet.Gone, 4, 5), of("1", "a", fleet.Gone, 2, 3)}, "2"},
		"one of two beside another": {[]fleet.Member{of("young", "a", fleet.Up, 2, 9), of("dead", "a", fleet.Gone, 1, 3)}, "young dead"},
		"one dead, and the others restarted": {[]fleet.Member{of("n1", "a", fleet.Up, 6, 9), of("n2", "a", fleet.Draining, 7, 9), of("o1", "a", fleet.Ended, 1, 5),
			of("o2", "a", fleet.Ended, 1, 6), of("dead", "a", fleet.Gone, 1, 4)}, "n1 n2 dead"},
		"elsewhere":          {[]fleet.Member{of("new", "b", fleet.Up, 4, 9), of("old", "a", fleet.Gone, 1, 3)}, "new old"},
		"something else":     {[]fleet.Member{of("new", "a", fleet.Up, 4, 9, "mail"), of("old", "a", fleet.Gone, 1, 3)}, "new old"},
		"ended":              {[]fleet.Member{of("old", "a", fleet.Ended, 1, 3)}, ""},
		"replaced by itself": {[]fleet.Member{of("back", "a", fleet.Gone, 4, 4)}, "back"},
		"nobody was ever":    {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, m := range (fleet.Census{Members: c.members}).Current() {
				got = append(got, m.Version)
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("%q, want %q", text, c.want)
			}
		})
	}
}

// Records go when they are a day old; where there is a crowd, the silent ones go before that, and nobody else.
func TestWhatIsForgotten(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		oldest, crowded, before time.Time
		some                    bool
	}{
		{ago(time.Hour), time.Time{}, ago(fleet.Keep), false},
		{ago(fleet.Keep), time.Time{}, ago(fleet.Keep), false},
		{ago(fleet.Keep + 1), time.Time{}, ago(fleet.Keep), true},
		{ago(time.Hour), ago(time.Minute), ago(fleet.Patience), true},
		{ago(2 * time.Minute), ago(time.Minute), ago(fleet.Patience), false},
		{ago(2 * time.Hour), ago(time.Hour), ago(time.Hour).Add(time.Microsecond), true},
		{ago(50 * time.Hour), ago(40 * time.Hour), ago(fleet.Keep), true},
	} {
		if before, some := fleet.Forget(now, c.oldest, c.crowded); !before.Equal(c.before) || some != c.some {
			t.Errorf("oldest %s, crowded %s: %s, %t, want %s, %t", c.oldest, c.crowded, before, some, c.before, c.some)
		}
	}
}

func TestARecordThatIsNone(t *testing.T) {
	p := fleet.Process{ID: lease.NewNonce(), Host: "a"}
	all := []fleet.Process{fleet.Parse([]byte("{"), time.Now()), fleet.Parse(make([]byte, 1<<20), time.Now()), fleet.Parse(nil, time.Now()),
		fleet.Parse(p.Record(), time.Now()), fleet.Parse([]byte(`{"host":"x"}`), time.Now())}
	ahead := p
	ahead.ID[0]++
	all = append(all, fleet.Parse(ahead.Record(), time.Now().Add(2*time.Hour)), fleet.Parse(p.Record(), time.UnixMicro(math.MaxInt64)))
	if all = fleet.Readable(all, time.Now()); len(all) != 1 || all[0].ID != p.ID {
		t.Errorf("%+v", all)
	}
}
