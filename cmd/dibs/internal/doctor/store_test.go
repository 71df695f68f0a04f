package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/doctor"
	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
)

// want checks that there is one finding of a check with a severity, and returns it; with "", that
// there is none of that check but notes.
func want(t *testing.T, all []doctor.Finding, check string, s doctor.Severity) (one doctor.Finding) {
	t.Helper()
	n := 0
	for _, f := range all {
		if f.Check != check || s == "" && f.Severity == doctor.Info {
			continue
		}
		n++
		one = f
	}
	switch {
	case s == "" && n > 0:
		t.Errorf("%s is found where nothing is wrong: %+v", check, one)
	case s != "" && (n != 1 || one.Severity != s):
		t.Errorf("%d findings of %s, the last %+v; want one %s", n, check, one, s)
	case s == doctor.Error && one.Cure == "":
		t.Errorf("an error without a cure: %+v", one)
	}
	return one
}

// Settings that weaken a store are found with their cures, and apart from what it does less well by nature.
// Holds: promise 25.
func TestWeaknesses(t *testing.T) {
	p := store.Properties{Weaker: []string{"By nature."}}
	p.Flaw(store.Flaw{Breaks: true, What: "It evicts.", Cure: "Do not."})
	p.Flaw(store.Flaw{What: "It forgets.", Cure: "Write."})
	all := doctor.Weaknesses("s", p)
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	for i, want := range []doctor.Finding{
		{Severity: doctor.Error, Check: "store-setting", What: "It evicts.", Where: "s", Cure: "Do not."},
		{Severity: doctor.Warning, Check: "store-setting", What: "It forgets.", Where: "s", Cure: "Write."},
		{Severity: doctor.Info, Check: "store-weaker", What: "By nature.", Where: "s"},
	} {
		if all[i] != want {
			t.Errorf("%+v, want %+v", all[i], want)
		}
	}
	if len(p.Weaker) != 3 || p.Weaker[1] != "It evicts. Do not." {
		t.Errorf("what serve and init say: %q", p.Weaker)
	}
}

// A trial lease shows whether a store grants and releases, takes this TTL, or holds back, and leaves nothing behind.
// Holds: promise 25.
func TestTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New(memory.Options{})
		leases := b.Store().Leases
		want(t, doctor.Trial(t.Context(), "s", leases, time.Second), "store-trial", doctor.Info)
		if r, err := leases.List(t.Context(), "", true); err != nil || len(r.Answers) != 0 {
			t.Errorf("it left %+v, %v", r.Answers, err)
		}
		want(t, doctor.Trial(t.Context(), "s", leases, time.Hour), "ttl", doctor.Error)
		want(t, doctor.Trial(t.Context(), "s", readOnly{leases}, time.Second), "store-trial", doctor.Error)
		want(t, doctor.Trial(t.Context(), "s", neverReleases{leases}, time.Second), "store-trial", doctor.Error)
		held := memory.New(memory.Options{HoldBack: true}).Store().Leases
		if f := want(t, doctor.Trial(t.Context(), "s", held, time.Second), "held-back", doctor.Warning); !strings.Contains(f.What, "15s") {
			t.Errorf("%+v", f)
		}
	})
}

type readOnly struct{ lease.Store }

func (readOnly) Acquire(context.Context, []lease.AcquireRequest) (lease.Reply, error) {
	return lease.Reply{}, errors.New("permission denied")
}

type neverReleases struct{ lease.Store }

func (neverReleases) Release(context.Context, []lease.Ref) (lease.Reply, error) {
	return lease.Reply{Answers: []lease.Answer{{Status: lease.Gone}}}, nil
}

// Holds: promise 25.
func TestClockIsMeasuredAgainstTheStore(t *testing.T) {
	for _, skew := range []time.Duration{0, 90 * time.Second, -90 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Options{}).Store()
			s.Leases = slow{s.Leases}
			offset, uncertain, err := doctor.Clock(t.Context(), s, clock.Virtual{Start: time.Now(), WallOffset: skew})
			if err != nil || (offset-skew).Abs() > uncertain || uncertain != 10*time.Millisecond {
				t.Errorf("%s ahead: %s ± %s, %v", skew, offset, uncertain, err)
			}
		})
	}
}

// slow answers 15 ms after it was asked and reads its clock at once.
type slow struct{ lease.Store }

func (s slow) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	time.Sleep(5 * time.Millisecond)
	r, err := s.Store.Read(ctx, keys)
	time.Sleep(15 * time.Millisecond)
	return r, err
}

// A clock that differs from the store's is found, unless a slow answer may be the reason.
// Holds: promise 25.
func TestOffset(t *testing.T) {
	for _, c := range []struct {
		offset, uncertain time.Duration
		want              doctor.Severity
	}{
		{0, 0, doctor.Info}, {-time.Second, 0, doctor.Info}, {1100 * time.Millisecond, 0, doctor.Warning}, {-5 * time.Second, 0, doctor.Warning},
		{5100 * time.Millisecond, 0, doctor.Error}, {-time.Hour, time.Second, doctor.Error},
		{3 * time.Second, 2500 * time.Millisecond, doctor.Info}, // a slow answer proves nothing
	} {
		f := doctor.Offset("s", c.offset, c.uncertain)
		if f.Severity != c.want || (f.Severity != doctor.Info) != (f.Cure != "") {
			t.Errorf("%s ± %s: %+v", c.offset, c.uncertain, f)
		}
	}
}

func TestMarginInWords(t *testing.T) {
	for ttl, outage := range map[time.Duration]string{15 * time.Second: "4.85s", 60 * time.Second: "49.4s"} {
		if f := doctor.Margin("s", lease.MarginFor(ttl)); !strings.Contains(f.What, "a silence of the store of "+outage) {
			t.Errorf("%s: %s", ttl, f.What)
		}
	}
}

// Rule H2: an address that every host resolves to itself.
// Holds: promise 25, H2.
func TestLoopback(t *testing.T) {
	for address, local := range map[string]bool{
		"redis://localhost:6379/0": true, "redis://127.0.0.1": true, "rediss://[::1]:6379": true, "postgres://u@/app?host=/run/postgresql": true,
		"postgres://u@127.0.0.1:5432,localhost:5433/app": true, "mysql://u@app.localhost/x": true, "mysql://u@h/x?socket=/run/mysqld.sock": true, "redis://0.0.0.0": true,
		"redis://cache:6379/0": false, "postgres://u@127.0.0.1,db2/app": false, "redis://10.0.0.1": false, "redis://127.0.0.1?reach=fleet": false, "mysql://localhost.example/x": false,
	} {
		c, err := store.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		worst, mild := doctor.Error, doctor.Warning
		if !local {
			worst, mild = "", ""
		}
		want(t, doctor.Loopback(address, c, true, []string{"shop/a", "shop/b", "shop/c", "shop/d"}), "loopback", worst)
		want(t, doctor.Loopback(address, c, true, nil), "loopback", mild)
		want(t, doctor.Loopback(address, c, false, []string{"shop/a"}), "loopback", "")
	}
}

func TestTheWorstComesFirst(t *testing.T) {
	all := []doctor.Finding{{Severity: doctor.Info, Check: "a"}, {Severity: doctor.Error, Check: "b"}, {Severity: doctor.Warning, Check: "c"}, {Severity: doctor.Error, Check: "d"}}
	doctor.Sort(all)
	var got string
	for _, f := range all {
		got += f.Check
	}
	if got != "bdca" || doctor.Count(all, doctor.Error) != 2 {
		t.Errorf("%s, %d errors", got, doctor.Count(all, doctor.Error))
	}
}

// curable is an error that knows its cure.
type curable struct{}

func (curable) Error() string { return "its binlog_format is STATEMENT" }
func (curable) Cure() string  { return "Set it to ROW." }

// An error that knows its cure is not told another one.
func TestAnUnusableStoreHasItsOwnCure(t *testing.T) {
	if f := doctor.Unusable("x", fmt.Errorf("open: %w", curable{})); f.Cure != "Set it to ROW." {
		t.Errorf("%+v", f)
	}
	if f := doctor.Unusable("x", errors.New("refused")); !strings.Contains(f.Cure, "dibs init") {
		t.Errorf("%+v", f)
	}
}
