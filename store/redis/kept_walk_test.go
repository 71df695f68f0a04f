package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A stroll does anything with a few leases, ticks, jobs and what is told of them, in batches that name the same
// thing twice.
type stroll struct {
	testing.TB
	s      *store.Store
	config store.Config
	raw    *goredis.Client
	prefix string
	rng    *rand.Rand
	holds  []lease.Ref
	runs   []run.Record
	begin  time.Time
	try    func() error
}

// A walk decides what is next, which may be tried again after it failed.
type walk interface {
	plan()
	attempt() error
}

func (r *stroll) attempt() error { return r.try() }

func (r *stroll) pick(n int) int { return r.rng.IntN(n) }

func (r *stroll) job() string { return fmt.Sprintf("%c/j%d", 'a'+rune(r.pick(2)), r.pick(3)) }

func (r *stroll) at() time.Time { return r.begin.Add(time.Duration(r.pick(40)-30) * time.Minute) }

func (r *stroll) hold() lease.Ref {
	if len(r.holds) == 0 || r.pick(20) == 0 {
		return lease.Ref{Key: "nobody's", Owner: lease.NewNonce(), Token: 1}
	}
	return r.holds[len(r.holds)-1-r.pick(min(len(r.holds), 12))]
}

// distinct are n holds at most, of different keys.
func (r *stroll) distinct(n int) (refs []lease.Ref) {
	for range n {
		if h := r.hold(); !slices.ContainsFunc(refs, func(x lease.Ref) bool { return x.Key == h.Key }) {
			refs = append(refs, h)
		}
	}
	return refs
}

// batch is one to four of something.
func batch[T any](r *stroll, of func() T) (all []T) {
	for range 1 + r.pick(4) {
		all = append(all, of())
	}
	return all
}

func (r *stroll) plan() {
	plans := []func(){
		r.acquire, r.acquire, r.renew, r.release, r.askOrBreak, r.trim, r.look, r.claim, r.claim, r.take, r.take, r.start, r.start, r.close, r.close,
		r.register, r.pause, r.settle, r.settle, r.split, r.unsettle, r.append, r.report, r.prune, r.prepare, r.upgraded, r.reading, r.reading,
	}
	plans[r.pick(len(plans))]()
}

func (r *stroll) acquire() {
	var reqs []lease.AcquireRequest
	for _, i := range r.rng.Perm(8)[:1+r.pick(4)] {
		q := request([]lease.Key{lease.Key(fmt.Sprint("k", i)), lease.OnceKey()}[r.pick(2)])
		q.TTL = []time.Duration{time.Millisecond, time.Hour, time.Hour, time.Hour, 9 * time.Hour}[r.pick(5)]
		q.Holder.Replaceable, q.Unguarded, q.Reclaim = r.pick(2) == 0, r.pick(3) == 0, r.hold()
		reqs = append(reqs, q)
	}
	if r.pick(2) == 0 { // as most are, all alike and in order
		slices.SortFunc(reqs, func(a, b lease.AcquireRequest) int { return strings.Compare(string(a.Key), string(b.Key)) })
		for i := range reqs {
			reqs[i].TTL, reqs[i].Reclaim = reqs[0].TTL, lease.Ref{}
		}
	}
	r.try = func() error {
		a, err := r.s.Leases.Acquire(r.Context(), reqs)
		for _, x := range a.Answers {
			if x.Status == lease.OK {
				r.holds = append(r.holds, x.Record.Ref())
			}
		}
		return err
	}
}

func (r *stroll) renew() {
	var reqs []lease.RenewRequest
	for _, ref := range r.distinct(4) {
		q := lease.RenewRequest{Ref: ref, TTL: []time.Duration{time.Millisecond, time.Hour, time.Hour}[r.pick(3)]}
		if r.pick(3) == 0 {
			q.BusyUntil = time.Now().Add(time.Duration(r.pick(2)) * time.Hour)
		}
		reqs = append(reqs, q)
	}
	r.try = func() error { _, err := r.s.Leases.Renew(r.Context(), reqs); return err }
}

func (r *stroll) release() {
	refs := r.distinct(2)
	r.try = func() error { _, err := r.s.Leases.Release(r.Context(), refs); return err }
}

func (r *stroll) askOrBreak() {
	ref, b := r.hold(), lease.Broken{By: "t", Why: "w", Now: r.pick(2) == 0}
	if r.pick(2) == 0 {
		r.try = func() error {
			_, err := r.s.Leases.RequestRelease(r.Context(), ref, lease.Holder{ID: lease.NewNonce()})
			return err
		}
		return
	}
	if r.pick(3) == 0 {
		ref.Owner = lease.Nonce{}
	}
	r.try = func() error { _, err := r.s.Leases.Break(r.Context(), ref, b); return err }
}

func (r *stroll) trim() {
	var keys []lease.Key
	for _, ref := range r.distinct(3) {
		keys = append(keys, ref.Key)
		key := r.prefix + "lease:" + string(ref.Key)
		if r.raw.HGet(r.Context(), key, "expires").Val() > "1" {
			r.raw.HSet(r.Context(), key, "expires", time.Now().Add(5*time.Hour).UnixMicro())
		}
	}
	r.try = func() error { return r.s.Leases.Trim(r.Context(), keys) }
}

func (r *stroll) look() {
	r.try = func() error {
		_, err := r.s.Leases.List(r.Context(), "k", r.pick(2) == 0)
		if err == nil {
			_, err = r.s.Leases.Read(r.Context(), []lease.Key{"k0", "k1"})
		}
		return err
	}
}

func (r *stroll) claim() {
	reqs := batch(r, func() tick.ClaimRequest {
		q := tick.ClaimRequest{Job: r.job(), At: r.at(), Lease: r.hold(), Ahead: time.Hour, Fill: r.pick(3) == 0, Claimant: lease.Holder{Host: "h"}}
		if r.pick(3) == 0 {
			q.Outcome = []run.Outcome{run.Missed, run.Skipped, run.Unavailable}[r.pick(3)]
		}
		return q
	})
	if r.pick(2) == 0 {
		reqs = append(reqs, reqs[0])
	}
	r.try = func() error { _, err := r.s.Ticks.Claim(r.Context(), reqs); return err }
}

// row is some tick that is there, or none.
func (r *stroll) row(fits func(tick.Tick) bool) (t tick.Tick, ok bool) {
	all, err := r.s.History.Ticks(r.Context(), history.Query{Job: r.job()})
	if err != nil {
		r.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(t tick.Tick) bool { return !fits(t) })
	if len(all) == 0 {
		r.try = func() error { return nil }
		return t, false
	}
	return all[r.pick(len(all))], true
}

func (r *stroll) take() {
	t, ok := r.row(func(t tick.Tick) bool { return t.State != tick.Claimed || !t.Live })
	if !ok {
		return
	}
	q := tick.TakeRequest{Job: t.Job, At: t.At, From: t.Lease, Lease: r.hold(), Claimant: lease.Holder{Host: "i"}}
	switch {
	case t.State == tick.Closed && t.Fillable():
		q.Fill = true
	case t.State != tick.Claimed:
		q.Rerun = true
	}
	r.try = func() error { _, err := r.s.Ticks.Take(r.Context(), q); return err }
}

func (r *stroll) start() {
	t, ok := r.row(func(t tick.Tick) bool { return t.State == tick.Claimed })
	if !ok {
		t.Job = r.job()
	}
	reqs := batch(r, func() tick.StartRequest {
		q := tick.StartRequest{Claim: t.Lease, Lease: r.hold(), Run: run.Record{ID: run.NewID(), Job: t.Job, Tick: t.At, Host: "h", PID: 1}}
		q.Run.Owner, q.Run.Token = q.Lease.Owner, q.Lease.Token
		if r.pick(3) == 0 {
			q.Run.Tick = time.Time{}
		}
		return q
	})
	reqs = append(reqs, reqs[0])
	r.try = func() error {
		a, err := r.s.Ticks.Start(r.Context(), reqs)
		for i, x := range a {
			if x.Status == tick.Won {
				r.runs = append(r.runs, reqs[i].Run)
			}
		}
		return err
	}
}

func (r *stroll) close() {
	reqs := batch(r, func() (q tick.CloseRequest) {
		q.Run = run.Record{Job: r.job(), Tick: r.at(), Outcome: run.Missed}
		if len(r.runs) > 0 && r.pick(4) > 0 {
			q.Run = r.runs[len(r.runs)-1-r.pick(min(len(r.runs), 10))]
		} else if t, ok := r.row(func(t tick.Tick) bool { return t.State == tick.Claimed }); ok {
			q.Run.Job, q.Run.Tick, q.Claim = t.Job, t.At, t.Lease
		}
		q.Run.Outcome = []run.Outcome{run.Succeeded, run.Failed, run.Crashed, run.Lost, run.Skipped, run.Canceled}[r.pick(6)]
		q.Run.Inferred = r.pick(3) == 0
		if r.pick(3) == 0 {
			q.Release = r.hold()
		}
		return q
	})
	reqs = append(reqs, reqs[0])
	r.try = func() error { _, err := r.s.Ticks.Close(r.Context(), reqs); return err }
}

func (r *stroll) register() {
	reqs := batch(r, func() tick.JobRequest {
		return tick.JobRequest{Name: r.job(), Definition: fmt.Sprint("{", r.pick(3), "}"), Since: r.begin.Add(-time.Hour), Remove: r.pick(6) == 0}
	})
	reqs = append(reqs, reqs[0])
	r.try = func() error { _, err := r.s.Ticks.SetJobs(r.Context(), reqs); return err }
}

func (r *stroll) pause() {
	q := tick.PauseRequest{Job: r.job(), By: "t", Why: "w", Resume: r.pick(2) == 0}
	r.try = func() error { _, err := r.s.Ticks.Pause(r.Context(), q); return err }
}

// known is a job that is registered, or any.
func (r *stroll) known() tick.Job {
	all, err := r.s.Ticks.Jobs(r.Context(), tick.JobQuery{})
	if err != nil {
		r.Fatal(err)
	}
	if len(all) == 0 {
		return tick.Job{Name: r.job()}
	}
	return all[r.pick(len(all))]
}

func (r *stroll) settle() {
	j := r.known()
	q := tick.SettleRequest{Job: j.Name, From: j.Mark, To: j.Mark.Add(time.Duration(r.pick(30)) * time.Minute)}
	for at := j.Mark.Add(time.Minute); at.Before(q.To); at = at.Add(time.Duration(1+r.pick(5)) * time.Minute) {
		row := tick.Tick{Job: j.Name, At: at, Outcome: run.Missed, Inferred: true, Count: 1, Ended: time.Now().Add(time.Hour)}
		if end := at.Add(4 * time.Minute); r.pick(2) == 0 && end.Before(q.To) {
			row.Through, row.Count, at = end, 5, end
		}
		q.Rows = append(q.Rows, row)
	}
	r.try = func() error { _, err := r.s.Ticks.Settle(r.Context(), q); return err }
}

func (r *stroll) split() {
	t, ok := r.row(func(t tick.Tick) bool { return !t.Through.IsZero() })
	if !ok {
		return
	}
	parts := []tick.Tick{{At: t.At, Count: 1}, {At: t.At.Add(time.Minute), Through: t.Through, Count: t.Count - 1}}
	r.try = func() error {
		_, err := r.s.Ticks.Split(r.Context(), tick.SplitRequest{Row: t, Parts: parts})
		return err
	}
}

func (r *stroll) unsettle() {
	j := r.known()
	q := tick.UnsettleRequest{Job: j.Name, From: j.Mark, To: time.Now().Add(-time.Minute)}
	if !q.To.Before(q.From) {
		q.To = q.From
	}
	all, err := r.s.History.Ticks(r.Context(), history.Query{Job: j.Name, From: q.To.Add(time.Microsecond)})
	if err != nil {
		r.Fatal(err)
	}
	for _, t := range all {
		if t.State == tick.Closed && t.At.After(q.To) && (t.Claimed.IsZero() || t.Foreseen(time.Now())) {
			q.Rows = append(q.Rows, t)
		}
	}
	r.try = func() error { _, err := r.s.Ticks.Unsettle(r.Context(), q); return err }
}

func (r *stroll) append() {
	events := batch(r, func() history.Event {
		e := history.Event{Kind: "x", Job: r.job(), RunID: "r", At: r.at()}
		if r.pick(2) == 0 {
			e.ID = fmt.Sprint("e", r.pick(20))
		}
		return e
	})
	events = append(events, events[0])
	runs := batch(r, func() run.Record {
		return run.Record{ID: fmt.Sprint("r", r.pick(50)), Job: r.job(), Outcome: run.Succeeded, Started: r.at(), Ended: r.begin}
	})
	runs = append(runs, runs[0])
	ticks := batch(r, func() tick.Tick {
		t := tick.Tick{Job: "host/" + r.job(), At: r.at(), State: tick.Closed, Outcome: run.Missed}
		if r.pick(2) == 0 {
			t.Through, t.Count = t.At.Add(3*time.Minute), 4
		}
		return t
	})
	r.try = []func() error{
		func() error { return r.s.History.Append(r.Context(), events) },
		func() error { return r.s.History.AppendRuns(r.Context(), runs) },
		func() error { return r.s.History.AppendTicks(r.Context(), ticks) },
	}[r.pick(3)]
}

// report has one of a few processes say what it is, now or long ago.
func (r *stroll) report() {
	p := fleet.Process{ID: lease.Nonce{byte(r.pick(9))}, Host: "h"}
	if r.pick(3) == 0 {
		p.Seen = r.begin.Add(-2 * fleet.Keep)
	}
	r.try = func() error { return r.s.Fleet.Report(r.Context(), p) }
}

func (r *stroll) prune() {
	kind, before, p := []string{"ticks", "runs", "events"}[r.pick(3)], r.at(), r.s.History.(past)
	if r.pick(4) == 0 {
		for _, ref := range r.distinct(2) { // long free
			if key := r.prefix + "lease:" + string(ref.Key); r.raw.Exists(r.Context(), key).Val() == 1 {
				r.raw.HSet(r.Context(), key, "expires", 1, "renewed", 1)
			}
		}
		r.try = func() error { return p.forgetLeases(r.Context(), before) }
		return
	}
	r.try = func() error { _, _, err := p.pruneKind(r.Context(), kind, before); return err }
}

// prepare opens the namespace once more, now and then on a server that has changed.
func (r *stroll) prepare() {
	meta := r.prefix + "meta"
	if r.raw.HExists(r.Context(), meta, "id").Val() { // an upgrade may have been cut short
		r.raw.HSet(r.Context(), meta, "schema", len(versions))
	}
	switch r.pick(3) {
	case 0:
		r.raw.HSet(r.Context(), meta, "run_id", "another")
	case 1:
		r.raw.Del(r.Context(), meta)
	}
	c, d := r.config, r.s.Leases.(leases).db
	c.Init = r.pick(2) == 0
	r.try = func() error {
		_, err := d.prepare(r.Context(), c)
		if err == nil {
			r.raw.HSet(r.Context(), meta, "hold_until", 0) // the walk goes on
		}
		return err
	}
}

// upgraded records the version of a namespace that was upgraded.
func (r *stroll) upgraded() {
	if r.raw.HExists(r.Context(), r.prefix+"meta", "id").Val() {
		r.raw.HSet(r.Context(), r.prefix+"meta", "schema", 0)
	}
	d := r.s.Leases.(leases).db
	r.try = func() error {
		_, err := d.run(r.Context(), "upgrade", upgradedScript, append(d.newArgs(2), len(versions), 1))
		return err
	}
}

func (r *stroll) reading() {
	job, from := r.job(), r.at()
	r.try = []func() error{
		func() error { _, err := r.s.Ticks.Orphans(r.Context(), tick.Look{Prefix: job}); return err },
		func() error {
			_, err := r.s.Ticks.Owed(r.Context(), tick.OwedLook{App: job[:1], From: from})
			return err
		},
		func() error {
			_, err := r.s.Ticks.Jobs(r.Context(), tick.JobQuery{Names: []string{job, "none"}})
			return err
		},
		func() error { _, err := r.s.History.Ticks(r.Context(), history.Query{From: from}); return err },
		func() error {
			_, err := r.s.History.Ticks(r.Context(), history.Query{Job: job, From: from})
			return err
		},
	}[r.pick(5)]
}

// strolling is a stroll on a server of its own, whose scripts are probed.
func strolling(t *testing.T) (*stroll, *probe) {
	t.Helper()
	c := config(t, ownServer(t, "--enable-debug-command", "yes").URL)
	c.Init, c.TTL = true, time.Hour
	s := open(t, c)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := &stroll{TB: t, s: s, config: c, rng: rand.New(rand.NewPCG(seed, 1)), raw: rawClient(t, c), prefix: "dibs:{" + c.Namespace + "}:"}
	r.begin = storeNow(t, s).Truncate(time.Minute)
	return r, probes(s, 0)
}
