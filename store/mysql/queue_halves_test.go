package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net/url"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/store/storetest"
)

// queueSaboteur looks at all that the tables have of a namespace's queues, and knows whether the statement that it let
// fail came behind the commit.
type queueSaboteur struct {
	*saboteur
	testing.TB
	fell      map[string]string
	committed bool
}

func (f *queueSaboteur) Fell() (map[string]string, bool) { return f.fell, f.committed }

func (f *queueSaboteur) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := f.saboteur.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &committing{c.(*sabotaged), f}, nil
}

// committing is a connection that tells what was committed before it failed.
type committing struct {
	*sabotaged
	f *queueSaboteur
}

func (c *committing) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	f := c.f
	if left := f.left; left >= 0 && !f.fired {
		if sent := strings.SplitAfter(strings.TrimSpace(text), ";"); left < len(sent) {
			done := strings.Join(sent[:left], "")
			f.fell, f.committed = f.State(f.TB, false), strings.Contains(done, "COMMIT;") || strings.Contains(done, "EXECUTE dibs_end;")
		}
	}
	return c.sabotaged.QueryContext(ctx, text, args)
}

func (f *queueSaboteur) State(t testing.TB, _ bool) map[string]string {
	t.Helper()
	state := map[string]string{}
	for _, sort := range []string{"tasks", "task_workers", "task_wakes", "task_pauses", "task_rates", "task_counts", "leases", "events"} {
		r, err := f.db.QueryContext(t.Context(), "SELECT * FROM dibs_"+sort+" WHERE ns = ? ORDER BY 1, 2, 3", f.ns)
		if err != nil {
			t.Fatal(err)
		}
		state[sort] = rowsText(t, r)
	}
	// The row of a limit is made before the step that needs it, and says nothing before anybody had a slot of it.
	r, err := f.db.QueryContext(t.Context(), "SELECT * FROM dibs_task_limits WHERE ns = ? AND (token > 0 OR said > 0) ORDER BY 1, 2", f.ns)
	if err != nil {
		t.Fatal(err)
	}
	state["limits"] = rowsText(t, r)
	r, err = f.db.QueryContext(t.Context(), "SELECT a.* FROM dibs_tasks t JOIN dibs_task_attempts a ON a.task = t.id WHERE t.ns = ? ORDER BY 1, 2", f.ns)
	if err != nil {
		t.Fatal(err)
	}
	state["attempts"] = rowsText(t, r)
	return state
}

// No step of the queue leaves anything half done, whichever of its statements fails.
// Holds: promises 18, 26.
func TestAQueueStepThatFailsHasDoneNothing(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	c := queueConfig(t, testserver.MariaDB(t))
	u, err := url.Parse(c.URL.String())
	if err != nil {
		t.Fatal(err)
	}
	connector, err := connectorOf(u)
	if err != nil {
		t.Fatal(err)
	}
	f := &queueSaboteur{TB: t, saboteur: &saboteur{Connector: connector, db: raw(t, c.URL.String(), nil), ns: []byte(c.Namespace), left: -1}}
	pool := sql.OpenDB(f)
	defer pool.Close()
	s, err := New(t.Context(), pool, c)
	if err != nil {
		t.Fatal(err)
	}
	storetest.RunQueueHalves(t, s, f)
}
