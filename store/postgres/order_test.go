package postgres

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
)

// A release locks its rows in the order of their keys, wherever they lie in the table, as every other
// operation does: it holds none that another transaction comes to, while it waits for an earlier one.
func TestAReleaseLocksInTheOrderOfTheKeys(t *testing.T) {
	c := config(t, database(t, testserver.Postgres(t)))
	s := open(t, c)
	var refs []lease.Ref
	once := string(lease.OnceKey()) // its row goes, where those of others stay
	for _, key := range []string{"zz", once} {
		refs = append(refs, grant(t, s, key).Ref())
	}
	other := admin(t, c.URL.String())
	lock := func(key string) error {
		_, err := other.Exec(t.Context(), "SELECT 1 FROM dibs.leases WHERE ns = $1 AND key = $2 FOR NO KEY UPDATE", c.Namespace, []byte(key))
		return err
	}
	if _, err := other.Exec(t.Context(), "BEGIN; SET LOCAL lock_timeout = '1s'"); err != nil {
		t.Fatal(err)
	}
	if err := lock(once); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := s.Leases.Release(t.Context(), refs); done <- err }()
	watch := admin(t, c.URL.String())
	for one[int](t, watch, "SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	if err := lock("zz"); err != nil {
		t.Errorf("the release holds a later key while it waits for an earlier one: %v", err)
	}
	if _, err := other.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
