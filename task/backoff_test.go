package task_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/task"
)

// The first pause of a list follows the first failed attempt, and the last one stands for all that come after it.
func TestAListOfPauses(t *testing.T) {
	b := task.Backoff{List: []time.Duration{time.Second, time.Minute, time.Hour}, NoJitter: true}
	for n, want := range []time.Duration{time.Second, time.Second, time.Minute, time.Hour, time.Hour} {
		if got := b.After(n); got != want {
			t.Errorf("after attempt %d: %s, want %s", n, got, want)
		}
	}
	one := task.Backoff{List: []time.Duration{time.Second}, NoJitter: true}
	if got := one.After(7); got != time.Second {
		t.Errorf("the only one: %s", got)
	}
}
