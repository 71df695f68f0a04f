package cli

import (
	"testing"
)

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
