package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/store/storetest"
)

// queueSaboteur looks at all that the database has of queues. A batch is one transaction: whatever fails in it is
// before its commit.
type queueSaboteur struct {
	*saboteur
	fell map[string]string
}

func (f *queueSaboteur) Fell() (map[string]string, bool) { return f.fell, false }

func (f *queueSaboteur) State(t testing.TB, _ bool) map[string]string {
	t.Helper()
	state := map[string]string{}
	for _, table := range []string{"tasks", "tasks_ended", "task_attempts", "queue_limits", "queue_notes", "queue_workers", "queue_pauses", "queue_rates",
		"queue_counts", "queue_bands", "queue_marks", "leases", "events"} {
		state[table] = one[string](t, f.sql, "SELECT coalesce(string_agg(x::text, E'\\n' ORDER BY x::text), '') FROM dibs."+table+" x")
	}
	return state
}

// No step of the queue leaves anything half done, whichever of its statements fails.
// Holds: promises 18, 26.
func TestAQueueStepThatFailsHasDoneNothing(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	d := s.Queue.(tasks).db
	f := &saboteur{sql: superuser(t, c.URL.String()), ns: c.Namespace, send: d.send, left: -1}
	q := &queueSaboteur{saboteur: f}
	d.send = func(ctx context.Context, b *pgx.Batch) error {
		if !f.fired && f.left >= 0 && f.left <= len(b.QueuedQueries) {
			q.fell = q.State(t, false)
		}
		return f.sabotaged(ctx, b)
	}
	storetest.RunQueueHalves(t, s, q)
}
