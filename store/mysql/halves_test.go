package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/store/storetest"
)

// saboteur is the driver of a pool. It puts a statement that fails into what is sent.
type saboteur struct {
	driver.Connector
	db    *sql.DB
	ns    []byte
	left  int // statements before it; negative: none
	fired bool
}

func (f *saboteur) Arm(n int) { f.left, f.fired = n, false }

func (f *saboteur) Fired() bool { return f.fired }

func (f *saboteur) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &sabotaged{c.(wire), f}, nil
}

// wire is what database/sql asks of the client's connection.
type wire interface {
	driver.Conn
	driver.ConnBeginTx
	driver.QueryerContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.SessionResetter
	driver.Validator
}

type sabotaged struct {
	wire
	f *saboteur
}

func (c *sabotaged) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if f := c.f; f.left >= 0 && !f.fired {
		statements := strings.SplitAfter(strings.TrimSpace(text), ";")
		if statements[len(statements)-1] == "" {
			statements = statements[:len(statements)-1]
		}
		if n := len(statements); f.left >= n {
			f.left -= n
		} else {
			text = strings.Join(statements[:f.left], "") + " SIGNAL SQLSTATE '45000'; " + strings.Join(statements[f.left:], "")
			f.fired = true
		}
	}
	return c.wire.QueryContext(ctx, text, args)
}

func (f *saboteur) State(t testing.TB, rough bool) map[string]string {
	t.Helper()
	state := map[string]string{}
	for sort, columns := range map[string]struct{ rough, instants string }{
		"leases": {"lease_key, owner, token, holder, ttl, expires <> 0, busy_until, wanted, broken_at <> 0", "acquired, renewed, expires, broken, broken_at"},
		"jobs":   {"name, definition, generation, since, mark, removed <> 0, paused_since <> 0, paused_until <> 0, paused_by, past", "removed, paused_since, paused_until"},
		"ticks": {"job, at, through, many, state, lease_key, lease_owner, lease_token, run_id, outcome, reason, inferred, reruns, claimed <> 0, started <> 0, ended <> 0",
			"claimed, started, ended"},
		"runs": {"run_id, job, tick, owner, token, outcome, reason, inferred, started <> 0, ended <> 0, (SELECT output FROM dibs_outputs o WHERE o.ns = t.ns AND o.run_id = t.run_id)",
			"started, ended"},
		"events": {"id, kind, job", "at"},
	} {
		selected, where := columns.rough, ""
		if !rough {
			selected += ", " + columns.instants
		}
		if sort == "leases" {
			where = " AND token > 0" // a row without one says nothing
		}
		r, err := f.db.QueryContext(t.Context(), "SELECT "+selected+" FROM dibs_"+sort+" t WHERE ns = ?"+where+" ORDER BY 1, 2", f.ns)
		if err != nil {
			t.Fatal(err)
		}
		state[sort] = rowsText(t, r)
	}
	return state
}

func rowsText(t testing.TB, r *sql.Rows) string {
	t.Helper()
	columns, err := r.Columns()
	values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	var text strings.Builder
	for r.Next() {
		err = errors.Join(err, r.Scan(into...))
		fmt.Fprintln(&text, values)
	}
	if err := errors.Join(err, r.Err(), r.Close()); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// No step of leases, ticks, jobs and history leaves anything half done, whichever of its statements fails.
// Holds: promise 26.
func TestWhatFailsHasDoneNothing(t *testing.T) {
	t.Parallel()
	testsize.Counts(t)
	c := config(t, testserver.MariaDB(t))
	u, err := url.Parse(c.URL.String())
	if err != nil {
		t.Fatal(err)
	}
	connector, err := connectorOf(u)
	if err != nil {
		t.Fatal(err)
	}
	pools := []bool{true} // which sends a COMMIT more
	if testsize.Long() {
		pools = append(pools, false)
	}
	for _, shared := range pools {
		c := c
		c.Namespace += fmt.Sprint(shared)
		f := &saboteur{Connector: connector, db: raw(t, c.URL.String(), nil), ns: []byte(c.Namespace), left: -1}
		pool := sql.OpenDB(f)
		defer pool.Close()
		s, err := New(t.Context(), pool, c)
		if err != nil {
			t.Fatal(err)
		}
		s.Leases.(leases).shared = shared // else as a pool of dibs's own
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) { storetest.RunHalves(t, s, f) })
	}
}
