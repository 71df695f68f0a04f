package cli

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// Rule L9: a store that lost its data is held back for the ttl that its leases had, also by a process whose address
// does not tell it; and a process that has just begun knows the epoch of the one before it.
// Holds: L9.
func TestAHostRemembersTheTTLAndTheEpochOfAStore(t *testing.T) {
	t.Setenv("DIBS_DIR", t.TempDir())
	server := testserver.StartRedis(t, "--appendonly", "no")
	config := func(params string) store.Config {
		c, err := store.Parse(server.URL + "?namespace=n" + params)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	opens := func(c store.Config) *opened {
		p, err := open(t.Context(), c, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.close)
		return p
	}
	c := config("&ttl=1m")
	c.Init = true
	first := opens(c)
	l, err := first.Keeper.Acquire(t.Context(), lease.Want{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Release(t.Context())
	epoch := first.Keeper.Epoch()
	if epoch == 0 {
		t.Error("an acquire told no epoch")
	}
	first.close()

	second := opens(config("")) // the crontab's line forgot the ttl
	if ttl := second.Keeper.Margin().TTL; ttl != time.Minute {
		t.Errorf("without a ttl in the address it is %s, want the namespace's", ttl)
	}
	if got := second.Keeper.Epoch(); got != epoch {
		t.Errorf("a new process knows the epoch %d, want %d", got, epoch)
	}
	if _, err := open(t.Context(), config("&ttl=15s"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("another ttl than the namespace's is taken")
	}

	server.Restart() // and all data is gone
	restarted := time.Now()
	third := opens(config(""))
	if wait := third.store.Properties.HoldUntil.Sub(restarted); wait < 50*time.Second {
		t.Errorf("it grants again in %s; leases of a minute may be alive", wait)
	}

	server.Restart()
	own := os.Getenv("DIBS_DIR")
	t.Setenv("DIBS_DIR", t.TempDir()) // the first who comes now is a host that knows nothing
	if ttl := opens(config("")).store.Properties.MaxTTL; ttl != lease.DefaultTTL {
		t.Errorf("a host that was never here takes %s for granted", ttl)
	}
	t.Setenv("DIBS_DIR", own)
	now := time.Now()
	fourth := opens(config("")).store
	if wait := fourth.Properties.HoldUntil.Sub(now); fourth.Properties.MaxTTL != time.Minute || wait < 50*time.Second {
		t.Errorf("the ttl is %s, and it grants again in %s; leases of a minute may be alive", fourth.Properties.MaxTTL, wait)
	}
	if said := strings.Join(fourth.Prepared, "; "); !strings.Contains(said, "1m0s") || !strings.Contains(said, "held back") {
		t.Errorf("it says %q", said)
	}
}
