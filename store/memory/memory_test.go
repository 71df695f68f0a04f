package memory_test

import (
	"testing"

	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/store/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, memory.Open, "memory:") }
