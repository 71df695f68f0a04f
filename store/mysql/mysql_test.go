package mysql

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, OpenConfig, testserver.MariaDB(t))
}

// The suite's "processes" renew and reclaim each other's holds. A named lock belongs to a process,
// so here they share its table, as the one process does that they are. That processes exclude each
// other by name is TestNamedLockExcludes.
func TestSessionStore(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	shared := map[string]*names{}
	open := func(ctx context.Context, c store.Config) (*store.Store, error) {
		s, err := OpenConfig(ctx, c)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if shared[c.Namespace] == nil {
			shared[c.Namespace] = s.Leases.(session).names // it is also closed last
		}
		n := shared[c.Namespace]
		s.Leases = session{s.Leases.(session).leases, n}
		s.Ticks = sessionTicks{s.Ticks.(sessionTicks).Store, n}
		return s, nil
	}
	storetest.Run(t, open, testserver.MariaDB(t)+"?lock=session")
}

// Holds: promise 1.
func TestALossOfAllDataIsWaitedForAsLongAsLeasesLasted(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	db := raw(t, address, nil)
	storetest.RunLoss(t, OpenConfig, address, func(t *testing.T, c store.Config) {
		exec(t, db, "DELETE FROM dibs_meta WHERE ns = ?", c.Namespace)
		exec(t, db, "DELETE FROM dibs_leases WHERE ns = ?", c.Namespace)
	})
}

// Holds: promise 1.
func TestAHoldBackOfAFastClockEnds(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	db := raw(t, address, nil)
	storetest.RunHoldBack(t, OpenConfig, address, holdUntil(db))
}

func holdUntil(db *sql.DB) func(t *testing.T, c store.Config, until time.Time) {
	return func(t *testing.T, c store.Config, until time.Time) {
		exec(t, db, "UPDATE dibs_meta SET hold_until = ? WHERE ns = ?", until.UnixMicro(), c.Namespace)
	}
}

func TestSlotsAreHeldBack(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	db := raw(t, address, nil)
	storetest.RunHeldSlots(t, OpenConfig, address, holdUntil(db), func(t *testing.T, c store.Config) {
		exec(t, db, "UPDATE dibs_meta SET identity = 'another' WHERE ns = ?", c.Namespace)
	})
}

func TestALimitThatIsNotUsedIsForgotten(t *testing.T) {
	t.Parallel()
	address := testserver.MariaDB(t)
	db := raw(t, address, nil)
	storetest.RunForgottenLimits(t, OpenConfig, address, func(t *testing.T, c store.Config) {
		exec(t, db, "UPDATE dibs_task_limits SET token = token - 25 * 3600000000 WHERE ns = ?", []byte(c.Namespace))
	})
}
