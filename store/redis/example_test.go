package redis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/redis"
)

// A program that uses this store compiles no other store's client.
func Example() {
	ctx := context.Background()
	c, err := store.Parse("redis://cache:6379/0?namespace=prod&ttl=30s")
	if err != nil {
		log.Fatal(err)
	}
	st, err := redis.OpenConfig(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify, Margin: lease.MarginFor(c.TTL)})
	if err != nil {
		log.Fatal(err)
	}
	defer keeper.Close()

	err = lease.Guard{Keeper: keeper}.Run(ctx, lease.Want{Key: "reports"}, func(ctx context.Context, l *lease.Lease) error {
		fmt.Println("hand this to whatever you write to:", l.Token())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
