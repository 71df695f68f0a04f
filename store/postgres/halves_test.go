package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/store/storetest"
)

// saboteur puts a statement that fails into what a store sends.
type saboteur struct {
	sql   *pgx.Conn
	ns    string
	send  func(context.Context, *pgx.Batch) error
	left  int // statements before it; negative: none
	fired bool
}

func (f *saboteur) Arm(n int) { f.left, f.fired = n, false }

func (f *saboteur) Fired() bool { return f.fired }

func (f *saboteur) sabotaged(ctx context.Context, b *pgx.Batch) error {
	if n := len(b.QueuedQueries); f.left >= 0 && !f.fired {
		if f.left > n {
			f.left -= n
			return f.send(ctx, b)
		}
		broken := &pgx.Batch{}
		broken.QueuedQueries = append(broken.QueuedQueries, b.QueuedQueries[:f.left]...)
		broken.Queue("SELECT 1 / 0")
		broken.QueuedQueries = append(broken.QueuedQueries, b.QueuedQueries[f.left:]...)
		b, f.fired = broken, true
	}
	return f.send(ctx, b)
}

func (f *saboteur) State(t testing.TB, rough bool) map[string]string {
	t.Helper()
	state := map[string]string{}
	for sort, columns := range map[string]string{
		"leases": "key, owner, token, holder, ttl, expires <> 0, busy_until, wanted, broken <> ''",
		"jobs":   "name, definition, generation, since, mark, removed <> 0, paused_since <> 0, paused_until <> 0, paused_by, past",
		"ticks":  "job, at, through, count, state, lease_key, lease_owner, lease_token, run_id, outcome, reason, inferred, reruns, claimed <> 0, started <> 0, ended <> 0",
		"runs":   "run_id, job, tick, owner, token, outcome, reason, inferred, started <> 0, ended <> 0, (SELECT output FROM dibs.outputs o WHERE o.ns = t.ns AND o.run_id = t.run_id)",
		"events": "id, kind, job",
	} {
		if !rough {
			columns += ", t"
		}
		where := ""
		if sort == "leases" {
			where = " AND token > 0" // a row without one says nothing
		}
		state[sort] = one[string](t, f.sql, "SELECT coalesce(string_agg(x::text, E'\\n' ORDER BY x::text), '') FROM (SELECT "+columns+" FROM dibs."+sort+" t WHERE ns = $1"+where+") x", f.ns)
	}
	return state
}

// No step of leases, ticks, jobs and history leaves anything half done, whichever of its statements fails.
// Holds: promise 26.
func TestWhatFailsHasDoneNothing(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	d := s.Leases.(leases).db
	if s.Ticks.(ticks).db != d || s.History.(told).db != d {
		t.Fatal("they are sent in several ways")
	}
	f := &saboteur{sql: superuser(t, c.URL.String()), ns: c.Namespace, send: d.send, left: -1}
	d.send = f.sabotaged
	storetest.RunHalves(t, s, f)
}
