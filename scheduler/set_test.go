package scheduler

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/schedule"
)

// TestSetOfTheStore: who settles a job by the definition that the store holds finds the ticks that
// its servers fire, whatever H and daylight saving make of them.
func TestSetOfTheStore(t *testing.T) {
	spec := &job.Spec{App: "shop", Name: "spread", Timezone: "America/New_York", DST: job.DSTRepeat,
		Schedules: []string{"H 1 * * *", "0 H(12-18) L * *"}}
	registered, err := job.ParseDefinition(spec.Definition())
	if err != nil {
		t.Fatal(err)
	}
	servers, err := SetOf(spec)
	if err != nil {
		t.Fatal(err)
	}
	settlers, err := setOf(registered, spec.Key())
	if err != nil {
		t.Fatal(err)
	}
	shell, err := schedule.Options{Zone: servers.Schedules()[0].Zone(), Name: "shop/spread", DST: schedule.Repeat}.Parse("H 1 * * *")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2024, 10, 30, 0, 0, 0, 0, time.UTC) // clocks go back on 3 November
	repeated := 0
	for range 40 {
		want, _ := servers.Next(at)
		if got, _ := settlers.Next(at); !got.Equal(want) {
			t.Fatalf("after %s: %s for the servers, %s for who settles", at, want, got)
		}
		if prev, _ := shell.Prev(want); prev.Equal(want) && want.Sub(at) == time.Hour {
			repeated++
		}
		at = want
	}
	if repeated != 1 {
		t.Errorf("%d ticks an hour after the one before: want 1, in the hour that came twice", repeated)
	}
}
