package cli

import (
	"os"
	"path/filepath"
	"strings"
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

// TZ as POSIX has it: with a colon, as the path of a zone's file, or as that of the host's zone.
// Holds: T10.
func TestTheZoneOfTZ(t *testing.T) {
	etc := t.TempDir()
	if err := os.Symlink("/usr/share/zoneinfo/Asia/Tokyo", filepath.Join(etc, "localtime")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"TZ", "CRON_TZ"} {
		t.Setenv("TZ", "")
		for value, want := range map[string]string{
			":Europe/Berlin":                     "Europe/Berlin",
			"Europe/Berlin":                      "Europe/Berlin",
			"UTC":                                "UTC",
			":/etc/localtime":                    "Asia/Tokyo",
			"/etc/localtime":                     "Asia/Tokyo",
			":":                                  "Asia/Tokyo",
			"":                                   "Asia/Tokyo",
			":/usr/share/zoneinfo/Europe/Berlin": "Europe/Berlin",
			"/usr/share/zoneinfo/posix/Europe/Berlin": "Europe/Berlin",
			"posix/Europe/Berlin":                     "Europe/Berlin",
			":Nowhere/Land":                           "",
			":/etc/passwd":                            "",
			"/usr/share/zoneinfo/../../../etc/passwd": "",
			"CET-1CEST,M3.5.0,M10.5.0/3":              "",
		} {
			t.Setenv(name, value)
			loc, err := cronZoneIn(etc, "")
			if want == "" && (err == nil || !strings.HasPrefix(err.Error(), name+": ")) || want != "" && (err != nil || loc.String() != want) {
				t.Errorf("%s=%s: %v, %v, want %q", name, value, loc, err, want)
			}
		}
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
