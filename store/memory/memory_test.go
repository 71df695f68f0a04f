package memory_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestSlotsAreHeldBack(t *testing.T) {
	hold := func(_ *testing.T, c store.Config, until time.Time) { memory.Hold(c.Namespace, until) }
	storetest.RunHeldSlots(t, memory.OpenConfig, "memory:", hold, nil)
}

func TestStore(t *testing.T) { storetest.Run(t, memory.OpenConfig, "memory:") }
