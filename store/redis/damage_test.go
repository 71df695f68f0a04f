package redis

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/storetest"
	"github.com/dibs-run/dibs/task"
)

// No key ends a program, whatever somebody wrote into it.
// Holds: promise 28.
func TestDamage(t *testing.T) {
	url := testserver.Redis(t)
	opened := func(ctx context.Context, c store.Config) (*store.Store, error) {
		t.Cleanup(func() { sweep(t, c) })
		return OpenConfig(ctx, c)
	}
	client := rawClient(t, config(t, url))
	sample := storetest.Victims(t, opened, url)
	var names []string
	for _, key := range keysOf(t, client, sample) {
		if name := generic(key); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) < 15 {
		t.Fatal(names)
	}
	var harms []storetest.Harm
	for _, name := range names {
		for _, value := range storetest.Hostile(false) {
			harms = append(harms, storetest.Harm{Name: storetest.HarmOf(name, value), Tasks: name == "specs:" || name == "rows:", History: slices.Contains([]string{"run:", "output:"}, name),
				Do: func(ctx context.Context, c store.Config, victim task.ID) (bool, error) {
					did := false
					for _, key := range keysOf(t, client, c) {
						if generic(key) == name {
							did = true
							if err := harm(ctx, client, "dibs:{"+c.Namespace+"}:"+key, value); err != nil {
								return false, err
							}
						}
					}
					return did, nil
				}})
		}
	}
	storetest.RunDamage(t, opened, url, harms)
	storetest.RunDamagedTask(t, opened, url, func(ctx context.Context, c store.Config, _ task.ID) error {
		for _, key := range keysOf(t, client, c) {
			if generic(key) == "specs:" {
				return harm(ctx, client, "dibs:{"+c.Namespace+"}:"+key, "{")
			}
		}
		return errors.New("there are no specs")
	})
}

// generic is a key without what differs from one namespace to the next.
func generic(key string) string {
	if name, _, ok := strings.Cut(key, ":"); ok {
		return name + ":"
	}
	return key
}

func keysOf(t *testing.T, client *goredis.Client, c store.Config) (all []string) {
	t.Helper()
	prefix := "dibs:{" + c.Namespace + "}:"
	found, err := client.Keys(context.Background(), prefix+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range found {
		all = append(all, strings.TrimPrefix(key, prefix))
	}
	slices.Sort(all)
	return all
}

// harm writes a value into all places of a key.
func harm(ctx context.Context, client *goredis.Client, key string, value any) error {
	switch client.Type(ctx, key).Val() {
	case "hash":
		fields, err := client.HKeys(ctx, key).Result()
		for _, f := range fields {
			if err == nil {
				err = client.HSet(ctx, key, f, value).Err()
			}
		}
		return err
	case "zset":
		return client.ZAdd(ctx, key, goredis.Z{Member: value}).Err()
	case "set":
		return client.SAdd(ctx, key, value).Err()
	case "list":
		return client.RPush(ctx, key, value).Err()
	}
	return client.Set(ctx, key, value, 0).Err()
}
