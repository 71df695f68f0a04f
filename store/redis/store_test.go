package redis

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	var used sync.Map // the suite's namespaces, which are swept when it is over
	t.Cleanup(func() {
		used.Range(func(_, c any) bool { sweep(t, c.(store.Config)); return true })
	})
	open := func(ctx context.Context, c store.Config) (*store.Store, error) {
		used.Store(c.Namespace, c)
		return OpenConfig(ctx, c)
	}
	storetest.Run(t, open, testserver.Redis(t))
}

// Holds: promise 1.
func TestALossOfAllDataIsWaitedForAsLongAsLeasesLasted(t *testing.T) {
	t.Parallel()
	lose := func(t *testing.T, c store.Config) { sweep(t, c) }
	open := func(ctx context.Context, c store.Config) (*store.Store, error) {
		t.Cleanup(func() { sweep(t, c) })
		return OpenConfig(ctx, c)
	}
	storetest.RunLoss(t, open, testserver.Redis(t), lose)
}

// set changes a field of the namespace's record.
func set(t *testing.T, c store.Config, field string, value any) {
	t.Helper()
	if err := rawClient(t, c).HSet(t.Context(), "dibs:{"+c.Namespace+"}:meta", field, value).Err(); err != nil {
		t.Fatal(err)
	}
}

func holdUntil(t *testing.T, c store.Config, until time.Time) {
	set(t, c, "hold_until", until.UnixMicro())
}

// Holds: promise 1.
func TestAHoldBackOfAFastClockEnds(t *testing.T) {
	t.Parallel()
	storetest.RunHoldBack(t, OpenConfig, testserver.Redis(t), holdUntil)
}

func TestSlotsAreHeldBack(t *testing.T) {
	t.Parallel()
	storetest.RunHeldSlots(t, OpenConfig, testserver.Redis(t), holdUntil, func(t *testing.T, c store.Config) { set(t, c, "run_id", "another") })
}

// One fetch that superseded 8,000 tasks, which is what Lua's stack holds, used to lose them.
func TestABacklogOfThousands(t *testing.T) {
	t.Parallel()
	storetest.RunBacklog(t, OpenConfig, testserver.Redis(t), 8500)
}

func TestANewProgramLosesNoTick(t *testing.T) {
	t.Parallel()
	open := func(ctx context.Context, c store.Config) (*store.Store, error) {
		t.Cleanup(func() { sweep(t, c) })
		return OpenConfig(ctx, c)
	}
	storetest.RunNewProgram(t, open, testserver.Redis(t))
}
