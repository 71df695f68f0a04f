package cli

import (
	"strings"
	"testing"
	"time"
)

// TestOncePerIsReadWithItsKey: H stands for the key, and --dst reaches the ticks.
func TestOncePerIsReadWithItsKey(t *testing.T) {
	o, err := parseOnce("H 2 * * *", "America/New_York", "skip", "invoices")
	if err != nil {
		t.Fatal(err)
	}
	next, _ := o.schedule.Next(time.Date(2024, 3, 10, 5, 0, 0, 0, time.UTC)) // 02:00 to 03:00 is left out
	if want := time.Date(2024, 3, 11, 6, next.Minute(), 0, 0, time.UTC); !next.Equal(want) {
		t.Errorf("due at %s, want %s", next, want)
	}
	other, err := parseOnce("H 2 * * *", "America/New_York", "skip", "rates")
	if err != nil || other.schedule.Description() == o.schedule.Description() {
		t.Errorf("another key has the same times, or %v", err)
	}
	if _, err := parseOnce("@daily", "UTC", "never", "invoices"); err == nil || !strings.Contains(err.Error(), "--dst \"never\": want vixie, skip or repeat") {
		t.Errorf("an unknown --dst: %v", err)
	}
}
