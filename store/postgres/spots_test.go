package postgres

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// burst are jobs that are due at one instant.
type burst struct {
	at     time.Time
	server lease.Ref
}

// of does something with n ticks, from the first on, and fails unless each was won.
func (b burst) claims(first, n int) (reqs []tick.ClaimRequest) {
	for i := range n {
		reqs = append(reqs, tick.ClaimRequest{Job: fmt.Sprintf("app/j%05d", first+i), At: b.at, Lease: b.server})
	}
	return reqs
}

func (b burst) claim(t *testing.T, s *store.Store, first, n int) {
	t.Helper()
	a, err := s.Ticks.Claim(t.Context(), b.claims(first, n))
	won(t, "claim", a, err)
}

func won(t *testing.T, what string, a []tick.Answer, err error) {
	t.Helper()
	if err != nil || slices.ContainsFunc(a, func(a tick.Answer) bool { return a.Status != tick.Won }) {
		t.Fatalf("%s: %v, %+v", what, err, a)
	}
}

func (b burst) start(t *testing.T, s *store.Store, first, n int) (begun []run.Record) {
	t.Helper()
	reqs := column(b.claims(first, n), func(c tick.ClaimRequest) tick.StartRequest {
		r := run.Record{ID: run.NewID(), Job: c.Job, Tick: c.At, Started: time.Now(), Owner: b.server.Owner, Token: b.server.Token}
		begun = append(begun, r)
		return tick.StartRequest{Run: r, Claim: b.server, Lease: b.server}
	})
	a, err := s.Ticks.Start(t.Context(), reqs)
	won(t, "start", a, err)
	return begun
}

func (b burst) close(t *testing.T, s *store.Store, begun []run.Record) {
	t.Helper()
	a, err := s.Ticks.Close(t.Context(), column(begun, func(r run.Record) tick.CloseRequest {
		r.Outcome, r.Ended = run.Succeeded, time.Now()
		return tick.CloseRequest{Run: r, Claim: b.server}
	}))
	won(t, "close", a, err)
}

// A request about a few ticks reads these and no others, also where thousands are due at one instant, and in a session
// that made its plans while there were hardly any.
// Holds: promise 26.
func TestATickIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	c := config(t, database(t, testserver.Postgres(t)))
	s := countedStore(t, c)
	b := burst{time.Now().Truncate(time.Second), grant(t, s.Store, "server").Ref()}
	for i := range 3 { // all sessions have their plans
		b.claim(t, s.Store, i, 1)
		b.close(t, s.Store, b.start(t, s.Store, i, 1))
	}
	sql := superuser(t, c.URL.String())
	for _, knows := range []string{"SELECT", "ANALYZE dibs.ticks"} {
		const fill = `INSERT INTO dibs.ticks (ns, job, at, state) SELECT $1, convert_to('app/j' || to_char(1000 + i, 'FM00000'), 'UTF8'), $2, 'closed'
			FROM generate_series(1, 5000) i ON CONFLICT DO NOTHING`
		if _, err := sql.Exec(t.Context(), fill, c.Namespace, b.at.UnixMicro()); err != nil {
			t.Fatal(err)
		}
		if _, err := sql.Exec(t.Context(), knows); err != nil {
			t.Fatal(err)
		}
		first := 10
		if knows != "SELECT" {
			first = 30
		}
		var begun []run.Record
		s.touches("claim of 10", 10*perItem, func() { b.claim(t, s.Store, first, 10) })
		s.touches("start of 10", 10*perItem, func() { begun = b.start(t, s.Store, first, 10) })
		s.touches("close of 10", 10*perItem, func() { b.close(t, s.Store, begun) })
	}
}
