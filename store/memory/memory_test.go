package memory

import (
	"testing"

	"github.com/dibs-run/dibs/store/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, Open, "memory:") }
