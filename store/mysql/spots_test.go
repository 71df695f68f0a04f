package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/tick"
)

// A request about a few ticks reads, and locks, these and no others of the namespace: it would cost more with
// each tick that there ever was, and requests about different ticks would wait for each other.
// Holds: promise 26, L4.
func TestATickIsFoundByItsKey(t *testing.T) {
	t.Parallel()
	c := config(t, testserver.MariaDB(t))
	s := mustOpen(t, c)
	got, err := s.Leases.Acquire(t.Context(), requests(1))
	if err != nil {
		t.Fatal(err)
	}
	ref, hour := got.Answers[0].Record.Ref(), time.Now().Truncate(time.Hour).Add(-time.Hour)
	var claims []tick.ClaimRequest
	for i := range 3000 {
		claims = append(claims, tick.ClaimRequest{Job: fmt.Sprintf("j%02d", i%50), At: hour.Add(time.Duration(i) * time.Second), Lease: ref})
	}
	if _, err := s.Ticks.Claim(t.Context(), claims); err != nil {
		t.Fatal(err)
	}
	db := raw(t, testserver.MariaDB(t), nil)
	exec(t, db, "ANALYZE TABLE dibs_ticks")
	for _, n := range []int{1, 20, mostTicks} {
		var some spots
		for _, r := range claims[:n] {
			some = append(some, spotOf(r.Job, r.At))
		}
		for _, name := range []string{"lock-ticks", "ticks"} {
			p := new(packet).add(name, []byte(c.Namespace), some)
			r, err := db.QueryContext(t.Context(), "EXPLAIN "+strings.TrimSuffix(strings.TrimSpace(p.text.String()), ";"), p.args...)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			columns, _ := r.Columns()
			values := make([]*string, len(columns))
			into := make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			if !r.Next() || r.Scan(into...) != nil {
				t.Fatal("no plan")
			}
			plan := map[string]string{}
			for i, column := range columns {
				if values[i] != nil {
					plan[column] = *values[i]
				}
			}
			if kind := plan["type"]; kind != "range" && kind != "const" {
				t.Errorf("%s of %d ticks among %d: %v", name, n, len(claims), plan)
			}
		}
	}
}
