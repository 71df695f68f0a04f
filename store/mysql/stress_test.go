package mysql

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// Overlapping batches in random order from several processes: nobody errs, no lease has two
// holders, no tick two winners, and the server sees no deadlock.
func TestOverlappingBatches(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.MariaDB(t))
	h := &stress{T: t, hour: time.Now().Add(-time.Hour).Truncate(time.Hour)}
	deadlocks := sockets{about: "Deadlock found"} // by the answers to these sessions: others may have deadlocks
	var stores []*store.Store
	for range 3 {
		pool := raw(t, c.URL.String(), deadlocks.watch)
		pool.SetMaxOpenConns(mostConns)
		pool.SetMaxIdleConns(mostConns)
		s, err := New(t.Context(), pool, c)
		if err != nil {
			t.Fatal(err)
		}
		s.Leases.(leases).shared = false // as a pool of dibs's own
		stores = append(stores, s)
	}
	const rounds = 12
	var work sync.WaitGroup
	for i := range 12 {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for n := range rounds {
				h.leases(stores[i%len(stores)], rnd)
				h.ticks(stores[i%len(stores)], rnd, i, n)
			}
		})
	}
	work.Wait()
	if n := deadlocks.seen.Load(); n != 0 {
		t.Errorf("%d deadlocks; the last one of the server:\n%s", n, deadlock(t, raw(t, c.URL.String(), nil)))
	}
	if n := h.won.Load(); n != rounds*jobs {
		t.Errorf("%d claims were won of %d ticks", n, rounds*jobs)
	}
	t.Logf("%d leases were granted", h.granted.Load())
}

// deadlock is what the server remembers of its last one.
func deadlock(t *testing.T, db *sql.DB) string {
	t.Helper()
	var kind, name, text string
	if err := db.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &text); err != nil {
		t.Fatal(err)
	}
	_, text, _ = strings.Cut(text, "LATEST DETECTED DEADLOCK")
	text, _, _ = strings.Cut(text, "WE ROLL BACK")
	return text
}

// jobs is how many jobs have a tick in each round.
const jobs = 12

type stress struct {
	*testing.T
	hour         time.Time
	holders      [40]atomic.Int32
	winners      sync.Map // of (job, at)
	granted, won atomic.Int64
}

func (h *stress) leases(s *store.Store, rnd *rand.Rand) {
	var reqs []lease.AcquireRequest
	for _, k := range rnd.Perm(len(h.holders))[:16] {
		reqs = append(reqs, request(lease.Key(fmt.Sprint("k", k))))
	}
	got, err := s.Leases.Acquire(h.Context(), reqs)
	if err != nil {
		h.Error(err)
		return
	}
	var refs []lease.Ref
	var renewals []lease.RenewRequest
	for _, a := range got.Answers {
		if a.Status == lease.OK {
			ref := a.Record.Ref()
			refs, renewals = append(refs, ref), append(renewals, lease.RenewRequest{Ref: ref, TTL: long})
			if h.holder(ref.Key).Add(1) != 1 {
				h.Errorf("%q has two holders", ref.Key)
			}
		}
	}
	h.granted.Add(int64(len(refs)))
	if len(refs) == 0 {
		return
	}
	renewed, err := s.Leases.Renew(h.Context(), renewals)
	for _, a := range renewed.Answers {
		if a.Status != lease.OK {
			h.Errorf("Renew: %v", a.Status)
		}
	}
	for _, ref := range refs {
		h.holder(ref.Key).Add(-1)
	}
	if _, rerr := s.Leases.Release(h.Context(), refs); err != nil || rerr != nil {
		h.Error(err, rerr)
	}
}

func (h *stress) holder(k lease.Key) *atomic.Int32 {
	var i int
	if _, err := fmt.Sscanf(string(k), "k%d", &i); err != nil {
		h.Error(err)
	}
	return &h.holders[i]
}

// ticks registers, claims, starts and closes, each in a batch that others also have.
func (h *stress) ticks(s *store.Store, rnd *rand.Rand, worker, n int) {
	r, err := s.Leases.Acquire(h.Context(), []lease.AcquireRequest{request(lease.OnceKey())})
	if err != nil {
		h.Error(err)
		return
	}
	ref := r.Answers[0].Record.Ref()
	var defined []tick.JobRequest
	var claims []tick.ClaimRequest
	for _, j := range rnd.Perm(jobs) {
		name := fmt.Sprint("j", j)
		defined = append(defined, tick.JobRequest{Name: name, Definition: "{}", Since: h.hour})
		claims = append(claims, tick.ClaimRequest{Job: name, At: h.hour.Add(time.Duration(n) * time.Second), Lease: ref})
	}
	if _, err := s.Ticks.SetJobs(h.Context(), defined); err != nil {
		h.Error(err)
	}
	answers, err := s.Ticks.Claim(h.Context(), claims)
	if err != nil {
		h.Error(err)
		return
	}
	var closes []tick.CloseRequest
	for i, a := range answers {
		if a.Status != tick.Won {
			continue
		}
		h.won.Add(1)
		if by, taken := h.winners.LoadOrStore(fmt.Sprint(claims[i].Job, claims[i].At), worker); taken {
			h.Errorf("%s at %s has two winners: %v and %d", claims[i].Job, claims[i].At, by, worker)
		}
		rec := run.Record{ID: run.NewID(), Job: claims[i].Job, Tick: claims[i].At, Owner: ref.Owner, Token: ref.Token}
		if a, err := s.Ticks.Start(h.Context(), []tick.StartRequest{{Run: rec, Claim: ref, Lease: ref}}); err != nil || a[0].Status != tick.Won {
			h.Errorf("Start: %v, %v", a, err)
		}
		rec.Outcome = run.Succeeded
		closes = append(closes, tick.CloseRequest{Run: rec, Claim: ref})
	}
	closes = append(closes, tick.CloseRequest{Release: ref})
	closed, err := s.Ticks.Close(h.Context(), closes)
	if err != nil {
		h.Error(err)
	}
	for _, a := range closed[:max(0, len(closed)-1)] {
		if a.Status != tick.Won {
			h.Errorf("Close: %v", a.Status)
		}
	}
}
