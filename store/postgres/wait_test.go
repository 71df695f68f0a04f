package postgres

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/tick"
)

// The clock is read after the wait for a row, not when the request began.
func TestWaitForARowCounts(t *testing.T) {
	t.Parallel()
	address := testserver.Postgres(t)
	tables := map[string]string{"leases": "leases", "jobs": "jobs", "ticks": "ticks", "limits": "queue_limits"}
	storetest.RunWaits(t, OpenConfig, address, func(t *testing.T, c store.Config, what string) (unlock func()) {
		tx, err := superuser(t, address).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT 1 FROM dibs."+tables[what]+" WHERE ns = $1 FOR UPDATE", c.Namespace); err != nil {
			t.Fatal(err)
		}
		return func() { _ = tx.Rollback(t.Context()) }
	})
}

// A claim that waits for another one of its tick, which is taken back, is late when that is over.
func TestAClaimThatBecomesLateWhileItIsInsertedIsTakenBack(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	server := grant(t, s, "server").Ref()
	tx, err := superuser(t, c.URL.String()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMicro(time.Now().UnixMicro()).UTC().Add(-time.Minute)
	if _, err := tx.Exec(t.Context(), "INSERT INTO dibs.ticks (ns, job, at, state) VALUES ($1, $2, $3, 'claimed')", c.Namespace, []byte("j"), at.UnixMicro()); err != nil {
		t.Fatal(err)
	}
	bound := now(t, s).Add(300 * time.Millisecond)
	answer := claims(t, s, tick.ClaimRequest{Job: "j", At: at, Lease: server, NotAfter: bound})
	for now(t, s).Before(bound.Add(time.Millisecond)) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; a.Status != tick.Late {
		t.Errorf("it is %s, want late", a.Status)
	}
}

// A claim under a lease that lapses while the claim waits is taken back.
func TestAClaimWhoseLeaseLapsesWhileItIsInsertedIsTakenBack(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	a, granted := acquire(t, s, request("server", time.Second))
	if a.Status != lease.OK {
		t.Fatalf("%+v", a)
	}
	db, watch := superuser(t, c.URL.String()), superuser(t, c.URL.String())
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMicro(time.Now().UnixMicro()).UTC().Add(-time.Minute)
	if _, err := tx.Exec(t.Context(), "INSERT INTO dibs.ticks (ns, job, at, state) VALUES ($1, $2, $3, 'claimed')", c.Namespace, []byte("j"), at.UnixMicro()); err != nil {
		t.Fatal(err)
	}
	answer := claims(t, s, tick.ClaimRequest{Job: "j", At: at, Lease: a.Record.Ref()})
	for !now(t, s).After(granted.Add(time.Second)) { // a claim that was slow to come waits for nothing, and is refused as well
		time.Sleep(10 * time.Millisecond)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; a.Status == tick.Won {
		t.Error("it stands, and nobody has its lease")
	}
	if n := one[int](t, watch, "SELECT count(*)::int FROM dibs.ticks"); n != 0 {
		t.Errorf("%d ticks are left of it", n)
	}
}

// A claim and a settling of its job wait for each other: else a tick could be settled as missed, and run as well.
func TestAClaimWaitsForASettling(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	server := grant(t, s, "server").Ref()
	at := time.UnixMicro(time.Now().UnixMicro()).UTC()
	if _, err := s.Ticks.SetJobs(t.Context(), []tick.JobRequest{{Name: "j", Definition: "{}", Since: at.Add(-time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	db := superuser(t, c.URL.String())
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "UPDATE dibs.jobs SET mark = $2 WHERE ns = $1", c.Namespace, at.UnixMicro()); err != nil {
		t.Fatal(err)
	}
	answer := claims(t, s, tick.ClaimRequest{Job: "j", At: at.Add(-time.Second), Lease: server})
	for watch := superuser(t, c.URL.String()); !blocks(t, watch, tx); {
		select {
		case a := <-answer:
			t.Fatalf("it was answered %s beside the settling", a.Status)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; a.Status != tick.Settled {
		t.Errorf("after the settling it is %s", a.Status)
	}
}

// claims sends a claim, and gives its answer when it comes.
func claims(t *testing.T, s *store.Store, r tick.ClaimRequest) <-chan tick.Answer {
	answer := make(chan tick.Answer, 1)
	go func() {
		a, err := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{r})
		if err != nil {
			t.Error(err)
			a = make([]tick.Answer, 1)
		}
		answer <- a[0]
	}()
	return answer
}

// A key that was granted before is held back as well, when the store has become another one.
// Holds: L9.
func TestKnownKeysAreHeldBack(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	release(t, s, grant(t, s, "k").Ref())
	if _, err := superuser(t, c.URL.String()).Exec(t.Context(), "UPDATE dibs.namespaces SET identity = 'another' WHERE ns = $1", c.Namespace); err != nil {
		t.Fatal(err)
	}
	if a, _ := acquire(t, s, request("k", time.Second)); a.Status != lease.HeldBack {
		t.Errorf("it is %v", a.Status)
	}
}

func now(t *testing.T, s *store.Store) time.Time {
	t.Helper()
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// Rule L10: a token is above the last one of its key, also where the clock has stepped back.
// Holds: L10.
func TestATokenIsAboveTheLast(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.Postgres(t))
	s := open(t, c)
	first := grant(t, s, "k")
	release(t, s, first.Ref())
	last := int64(first.Token) + time.Hour.Microseconds()
	if _, err := superuser(t, c.URL.String()).Exec(t.Context(), "UPDATE dibs.leases SET token = $2 WHERE ns = $1", c.Namespace, last); err != nil {
		t.Fatal(err)
	}
	if next := grant(t, s, "k"); int64(next.Token) <= last {
		t.Errorf("%d after %d", next.Token, last)
	} else {
		release(t, s, next.Ref())
		last = int64(next.Token)
	}
	// The statement for several keys is another one.
	r, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{request("k", time.Second), request("l", time.Second)})
	if err != nil || int64(r.Answers[0].Record.Token) <= last {
		t.Errorf("%d after %d, %v", r.Answers[0].Record.Token, last, err)
	}
}

// A known key is granted neither for longer than the namespace's longest TTL, nor by an older state of the data than
// its asker has seen (rule L9). A lone request and one of several are judged by statements of their own.
// Holds: L9.
func TestKnownKeysAreJudgedByTheNamespace(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1} {
		s := open(t, config(t, database(t, testserver.Postgres(t))))
		reqs := []lease.AcquireRequest{request("k", 15*time.Second), request("l", 15*time.Second)}[:1+others]
		ask := func(change func(*lease.AcquireRequest)) lease.Reply {
			for i := range reqs {
				reqs[i] = request(string(reqs[i].Key), 15*time.Second)
				change(&reqs[i])
			}
			r, err := s.Leases.Acquire(t.Context(), reqs)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		first := ask(func(*lease.AcquireRequest) {})
		release(t, s, first.Answers[0].Record.Ref())
		if a := ask(func(q *lease.AcquireRequest) { q.TTL = time.Hour }).Answers[0]; a.Status != lease.TooLong {
			t.Errorf("a lease of an hour: %v", a.Status)
		}
		if a := ask(func(q *lease.AcquireRequest) { q.Seen = first.Epoch + 1 }).Answers[0]; a.Status != lease.HeldBack {
			t.Errorf("by an older state of the data: %v", a.Status)
		}
	}
}
