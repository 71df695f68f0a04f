package memory_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestSlotsAreHeldBack(t *testing.T) {
	hold := func(_ *testing.T, c store.Config, until time.Time) { memory.Hold(c.Namespace, until) }
	storetest.RunHeldSlots(t, memory.OpenConfig, "memory:", hold, nil)
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, memory.OpenConfig, "memory:")
}

func TestANewProgramLosesNoTick(t *testing.T) {
	t.Parallel()
	storetest.RunNewProgram(t, memory.OpenConfig, "memory:")
}

// What is in this process's own memory is new for certain: nobody waits for holders of before.
func TestANewStoreGrantsAtOnce(t *testing.T) {
	c, err := store.Parse("memory:?namespace=" + lease.NewNonce().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := memory.OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{{Key: "k", Holder: lease.Holder{ID: lease.NewNonce()}, TTL: lease.DefaultTTL}})
	if err != nil || r.Answers[0].Status != lease.OK {
		t.Errorf("%+v, %v", r, err)
	}
}
