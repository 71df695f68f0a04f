package cli

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
)

func parsed(t *testing.T, address string) store.Config {
	t.Helper()
	c, err := store.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What a host remembers of a store is a hint in a file that others may write: it is bounded, it never goes
// back, and each namespace has its own.
func TestWhatAHostRemembersIsBounded(t *testing.T) {
	t.Setenv("DIBS_DIR", t.TempDir())
	one, other := parsed(t, "redis://host/0?namespace=one"), parsed(t, "redis://host/0?namespace=other")
	remembered{}.keepEpoch(one, 7)
	rememberedOf(one).keepEpoch(one, 5)
	if got := rememberedOf(one).epoch; got != 7 {
		t.Errorf("the epoch is %d after an older one, want 7", got)
	}
	if got := rememberedOf(other).epoch; got != 0 {
		t.Errorf("another namespace has the epoch %d", got)
	}
	for text, want := range map[string]time.Duration{"1m0s": time.Minute, "1000h": longestSeen, "-1h": 0, "soon": 0} {
		if err := spool.Remember(hostDir(), ttlOf(one), text); err != nil {
			t.Fatal(err)
		}
		if got := rememberedOf(one).ttl; got != want {
			t.Errorf("%s is believed as %s, want %s", text, got, want)
		}
	}
	if err := spool.Remember(hostDir(), epochOf(one), "-3"); err != nil || rememberedOf(one).epoch != 0 {
		t.Errorf("a negative epoch is believed: %d, %v", rememberedOf(one).epoch, err)
	}
}

// Only a store that does not answer makes a tick unavailable.
func TestOnlySilenceIsNoted(t *testing.T) {
	t.Setenv("DIBS_DIR", t.TempDir())
	c := parsed(t, "redis://host/0?namespace=n")
	c.Expect = "installation"
	j := &scheduler.Job{Spec: job.Spec{App: "a", Name: "j"}}
	noteUnclaimed(c, j, "a/j", time.Now(), errors.New("refused"))
	if n := files(t, hostDir()); n != 0 {
		t.Errorf("%d files after an error that is none of the store's", n)
	}
	noteUnclaimed(c, j, "a/j", time.Now(), lease.ErrUnavailable)
	if n := files(t, hostDir()); n == 0 {
		t.Error("a silence is not noted")
	}
}

func files(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir + "/spool")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(all)
}

// The zone of --once-per: the flag, then CRON_TZ, then TZ.
func TestTheCrontabsZoneComesBeforeTheHosts(t *testing.T) {
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("CRON_TZ", "Europe/Berlin")
	for flag, want := range map[string]string{"": "Europe/Berlin", "America/New_York": "America/New_York"} {
		if loc, err := cronZone(flag); err != nil || loc.String() != want {
			t.Errorf("--tz %q: %v, %v, want %s", flag, loc, err, want)
		}
	}
	t.Setenv("CRON_TZ", "")
	if loc, err := cronZone(""); err != nil || loc.String() != "Asia/Tokyo" {
		t.Errorf("without CRON_TZ: %v, %v", loc, err)
	}
}

// A distance of nothing between starts is a mistake.
func TestOncePerNothingIsRefused(t *testing.T) {
	for _, text := range []string{"0s", "-1h"} {
		if _, err := parseOnce(text, "", "vixie", "k"); err == nil {
			t.Errorf("--once-per %s is taken", text)
		}
	}
}
