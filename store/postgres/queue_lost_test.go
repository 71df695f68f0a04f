package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/queue/driver"
)

// A run that has lost its task waits for no transaction that has it now, whoever runs the task: the others of its
// batch are started and ended, and a caller's transaction waits for nobody who may be waiting for it.
//
// Holds: Q4.
func TestALostRunWaitsForNobody(t *testing.T) {
	t.Parallel()
	for _, whose := range []string{"another worker", "the same worker"} {
		t.Run(whose, func(t *testing.T) {
			c := config(t, testserver.Postgres(t))
			s := open(t, c)
			w := joined(t, s)
			next := w
			if whose == "another worker" {
				next = joined(t, s)
			}
			enqueue(t, s.Queue, spec())
			lost := fetchSome(t, s, w, 1).Tasks[0].Ref
			back := []driver.Completion{{Ref: lost, Verdict: driver.Return}}
			if st, err := s.Queue.Finish(t.Context(), w, back); err != nil || st[0] != driver.OK {
				t.Fatal(st, err)
			}
			if f := fetchSome(t, s, next, 1).Tasks; len(f) != 1 || f[0].ID != lost.ID || f[0].Token == lost.Token {
				t.Fatalf("fetched again: %+v", f)
			}
			enqueue(t, s.Queue, spec(), spec(), spec())
			others := fetchSome(t, s, w, 3).Tasks

			has, err := superuser(t, c.URL.String()).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer has.Rollback(context.Background()) //nolint:errcheck // it only reads
			if _, err := has.Exec(t.Context(), "SELECT FROM dibs.tasks WHERE id = $1 FOR UPDATE", lost.ID); err != nil {
				t.Fatal(err)
			}

			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			want := []driver.Status{driver.Gone, driver.OK}
			if st, err := s.Queue.Start(ctx, w, []driver.Ref{lost, others[0].Ref}); err != nil || !slices.Equal(st, want) {
				t.Errorf("start: %v, %v", st, err)
			}
			for n, verdict := range []driver.Verdict{driver.Success, driver.Snooze} {
				ends := []driver.Completion{{Ref: lost, Verdict: verdict}, {Ref: others[n].Ref, Verdict: verdict}}
				if st, err := s.Queue.Finish(ctx, w, ends); err != nil || !slices.Equal(st, want) {
					t.Errorf("finish with verdict %v: %v, %v", verdict, st, err)
				}
			}
			ends := []driver.Completion{{Ref: lost, Verdict: driver.Snooze}, {Ref: others[2].Ref, Verdict: driver.Snooze}}
			err = pgx.BeginFunc(ctx, superuser(t, c.URL.String()), func(tx pgx.Tx) error {
				st, err := QueueTx(tx, c.Namespace).Finish(ctx, w, ends)
				if !slices.Equal(st, want) {
					t.Errorf("finish in a transaction: %v", st)
				}
				return err
			})
			if err != nil {
				t.Errorf("finish in a transaction: %v", err)
			}
		})
	}
}
