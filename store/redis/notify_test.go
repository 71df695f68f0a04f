package redis

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

func watch(t *testing.T, ctx context.Context, s *store.Store, key lease.Key) <-chan struct{} {
	t.Helper()
	c, err := s.Notify.Watch(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func told(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Errorf("%s: nothing heard in 20 s", what)
	}
}

func TestWatchersShareOneConnection(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, c := prepared(t, server.URL)
	raw := rawClient(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := watch(t, ctx, s, "a"), watch(t, ctx, s, "a")
	other := watch(t, ctx, s, "b")
	list, err := raw.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text()
	if err != nil || strings.Count(list, "\n") != 1 {
		t.Errorf("connections that subscribe:\n%s%v", list, err)
	}
	r := grantOf(t, s, "a")
	if _, err := s.Leases.Release(ctx, []lease.Ref{r.Ref()}); err != nil {
		t.Fatal(err)
	}
	told(t, "the first", first)
	told(t, "the second", second)
	select {
	case <-other:
		t.Error("the watcher of another key was woken")
	default:
	}
	cancel()
	waitFor(t, "the end of the subscriptions", func() bool {
		n, err := raw.PubSubNumSub(t.Context(), "dibs:{"+c.Namespace+"}:free:a", "dibs:{"+c.Namespace+"}:free:b").Result()
		return err == nil && len(n) == 2 && n["dibs:{"+c.Namespace+"}:free:a"]+n["dibs:{"+c.Namespace+"}:free:b"] == 0
	})
	again := watch(t, t.Context(), s, "a")
	r = grantOf(t, s, "a")
	if _, err := s.Leases.Break(t.Context(), r.Ref(), lease.Broken{By: "x", Now: true}); err != nil {
		t.Fatal(err)
	}
	told(t, "one that came later", again)
}

// While the connection was down a release may have gone unheard, so its return is a hint as well.
func TestWatchersAreWokenAfterAnOutage(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, _ := prepared(t, server.URL)
	c := watch(t, t.Context(), s, "k")
	server.Restart()
	told(t, "the watcher", c)
}

func TestWatchOfAServerThatIsGone(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, _ := prepared(t, server.URL)
	server.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := s.Notify.Watch(ctx, "k"); err == nil {
		t.Error("it watches")
	}
}
