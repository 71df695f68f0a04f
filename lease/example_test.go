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

// A second caller gets an error that names the holder. Tokens only grow.
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

// Hold runs work under a lease that is held already. The caller releases it afterwards: a Record stays, so
// that the next holder's token is larger.
func ExampleGuard_Hold() {
	ctx := context.Background()
	st := memory.New(memory.Options{}).Store()
	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keeper.Close()

	l, err := keeper.Acquire(ctx, lease.Want{Key: "reports"})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = lease.Guard{Keeper: keeper}.Hold(ctx, l, func(_ context.Context, l *lease.Lease) error {
		return fmt.Errorf("no paper for %s", l.Key())
	})
	fmt.Println(err)
	for range 2 {
		now, r, err := keeper.Read(ctx, "reports")
		fmt.Println("held:", r.Live(now), "token kept:", r.Token == l.Token(), err)
		_ = l.Release(ctx)
	}
	// Output:
	// no paper for reports
	// held: true token kept: true <nil>
	// held: false token kept: true <nil>
}

// Break takes a lease away from its holder: the next renewal is refused, and the holder stops its work in time.
// The key is free once the holder has released it, or the lease has expired.
func ExampleKeeper_Break() {
	ctx := context.Background()
	st := memory.New(memory.Options{}).Store()
	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer keeper.Close()

	l, err := keeper.Acquire(ctx, lease.Want{Key: "deploy"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, r, ok, err := keeper.Break(ctx, l.Ref(), lease.Broken{By: "ada", Why: "the disk must be free for the backup"})
	fmt.Println("broken:", ok, "by", r.Broken.By, err)
	// Output:
	// broken: true by ada <nil>
}

// A key is 1 to 512 bytes of text, without control characters.
func ExampleParseKey() {
	for _, s := range []string{"reports", "café/daily", "two\nlines", ""} {
		key, err := lease.ParseKey(s)
		fmt.Printf("%q %v\n", key, err)
	}
	// Output:
	// "reports" <nil>
	// "café/daily" <nil>
	// "" bad key: "two\nlines" has a control character at byte 3
	// "" bad key: it is empty; give 1 to 512 bytes
}
