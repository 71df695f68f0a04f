package lease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// A Guard runs work under a lease. The work's context ends before anybody else can get the key.
func ExampleGuard_Run() {
	st := memory.New(memory.Options{}).Store() // in production: store/redis, store/postgres, …
	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keeper.Close()

	guard := lease.Guard{Keeper: keeper}
	err = guard.Run(context.Background(), lease.Want{Key: "reports"}, func(ctx context.Context, l *lease.Lease) error {
		fmt.Println("working on", l.Key(), "with a token:", l.Token() > 0)
		return ctx.Err()
	})
	fmt.Println("error:", err)
	// Output:
	// working on reports with a token: true
	// error: <nil>
}

// Who comes second learns who holds the key. Tokens only grow.
func ExampleKeeper_Acquire() {
	ctx := context.Background()
	st := memory.New(memory.Options{}).Store()
	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keeper.Close()

	first, err := keeper.Acquire(ctx, lease.Want{Key: "deploy", Holder: lease.Holder{Host: "web-1", PID: 4711}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = keeper.Acquire(ctx, lease.Want{Key: "deploy"})
	var held *lease.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Record.Holder)
	}
	if err := first.Release(ctx); err != nil {
		fmt.Println(err)
	}

	second, err := keeper.Acquire(ctx, lease.Want{Key: "deploy", Wait: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the second token is larger:", second.Token() > first.Token())
	_ = second.Release(ctx)
	// Output:
	// held by web-1 pid 4711
	// the second token is larger: true
}

// The arithmetic of rule L3: when work is told to stop, when it is killed, and for how long a store
// may be silent without touching it.
func ExampleMarginFor() {
	for _, ttl := range []time.Duration{15 * time.Second, 30 * time.Second, time.Minute} {
		m := lease.MarginFor(ttl)
		fmt.Println("ttl", ttl, "TERM", m.TermAfter(), "KILL", m.KillAfter(), "safe until", m.Safe(), "survives", m.Outage())
	}
	// Output:
	// ttl 15s TERM 8.85s KILL 13.85s safe until 14.85s survives 6.85s
	// ttl 30s TERM 23.7s KILL 28.7s safe until 29.7s survives 21.7s
	// ttl 1m0s TERM 53.4s KILL 58.4s safe until 59.4s survives 51.4s
}
