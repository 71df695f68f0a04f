package memory_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// A test of your own code can use this store in the place of a server. Two clients of one backend
// are like two processes on one server.
func ExampleNew() {
	backend := memory.New(memory.Options{})
	for _, name := range []string{"one", "two"} {
		keeper, err := lease.NewKeeper(lease.Options{Store: backend.Store().Leases})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer keeper.Close()
		l, err := keeper.Acquire(context.Background(), lease.Want{Key: "import"})
		if err != nil {
			fmt.Println(name, "does not get it:", errors.Is(err, lease.ErrHeld))
			return
		}
		fmt.Println(name, "holds", l.Key())
		defer l.Release(context.Background()) //nolint:errcheck // the process ends
	}
	// Output:
	// one holds import
	// two does not get it: true
}
