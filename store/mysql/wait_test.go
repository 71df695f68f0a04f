package mysql

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/tick"
)

// The clock is read after the wait for a row, not when the packet began.
func TestWhatWaitedForARowIsLate(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	tables := map[string]string{"leases": "leases", "jobs": "jobs", "ticks": "ticks", "limits": "task_limits"}
	storetest.RunWaits(t, OpenConfig, address, func(t *testing.T, c store.Config, what string) (unlock func()) {
		tx, err := raw(t, address, nil).BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("SELECT 1 FROM dibs_"+tables[what]+" FORCE INDEX (PRIMARY) WHERE ns = ? FOR UPDATE", []byte(c.Namespace)); err != nil {
			t.Fatal(err)
		}
		return func() { _ = tx.Rollback() }
	})
}

// A claim and a settling of its job wait for each other: else a tick could be settled as missed, and run as well.
func TestAClaimWaitsForASettling(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := config(t, address)
	s := mustOpen(t, c)
	server := grant(t, s, request("server"))
	at := time.UnixMicro(time.Now().UnixMicro()).UTC()
	if _, err := s.Ticks.SetJobs(t.Context(), []tick.JobRequest{{Name: "j", Definition: "{}", Since: at.Add(-time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	tx, err := raw(t, address, nil).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("UPDATE dibs_jobs SET mark = ? WHERE ns = ?", at.UnixMicro(), []byte(c.Namespace)); err != nil {
		t.Fatal(err)
	}
	answer := make(chan tick.Answer, 1)
	go func() {
		a, err := s.Ticks.Claim(t.Context(), []tick.ClaimRequest{{Job: "j", At: at.Add(-time.Second), Lease: server}})
		if err != nil {
			t.Error(err)
			a = make([]tick.Answer, 1)
		}
		answer <- a[0]
	}()
	for db := raw(t, address, nil); !waitsForRow(t, db, c.Namespace); {
		select {
		case a := <-answer:
			_ = tx.Rollback()
			t.Fatalf("it was answered %s beside the settling", a.Status)
		case <-time.After(20 * time.Millisecond):
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; a.Status != tick.Settled {
		t.Errorf("after the settling it is %s", a.Status)
	}
}

// Rule L10: a token is above the last one of its key, also where the clock has stepped back.
// Holds: L10.
func TestATokenIsAboveTheLast(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	c := config(t, address)
	s := mustOpen(t, c)
	ref := grant(t, s, request("k"))
	release(t, s, ref)
	last := int64(ref.Token) + time.Hour.Microseconds()
	exec(t, raw(t, address, nil), "UPDATE dibs_leases SET token = ? WHERE ns = ?", last, []byte(c.Namespace))
	if next := grant(t, s, request("k")); int64(next.Token) <= last {
		t.Errorf("%d after %d", next.Token, last)
	}
}
