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

// Each pause lies in the upper half of its exact value, and a thousand of them fill that half: no task comes back much
// sooner than planned, and tasks that failed together do not come back together.
func TestPausesFillTheUpperHalf(t *testing.T) {
	for _, exact := range []time.Duration{1, 2, 3, 1000, time.Second, time.Hour} {
		b := task.Backoff{List: []time.Duration{exact}}
		least, most := exact, time.Duration(0)
		for range 1000 {
			d := b.After(1)
			least, most = min(least, d), max(most, d)
		}
		if half := exact - exact/2; least < half || most > exact {
			t.Errorf("of %s: %s to %s, want %s to %s", exact, least, most, half, exact)
		}
		if spread := most - least; exact >= 1000 && spread < exact/2*9/10 {
			t.Errorf("of %s: %s to %s, which is all of them within %s", exact, least, most, spread)
		}
	}
	if d := (task.Backoff{List: []time.Duration{0}}).After(1); d != 0 {
		t.Errorf("of no pause: %s", d)
	}
}

// What is not set has its default, and the cap holds from its first failure to any later one.
func TestTheDefaultsOfABackoff(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		b    task.Backoff
		want map[int]time.Duration
	}{
		"nothing set":         {task.Backoff{}, map[int]time.Duration{-1: s, 0: s, 1: s, 2: 2 * s, 3: 4 * s, 12: 2048 * s, 13: time.Hour, 24: time.Hour, 5000: time.Hour}},
		"a base":              {task.Backoff{Base: 3 * s}, map[int]time.Duration{1: 3 * s, 2: 6 * s, 11: 3072 * s, 12: time.Hour}},
		"a factor":            {task.Backoff{Factor: 3}, map[int]time.Duration{1: s, 2: 3 * s, 3: 9 * s}},
		"a factor of one":     {task.Backoff{Factor: 1}, map[int]time.Duration{1: s, 2: s, 100: s}},
		"a factor below one":  {task.Backoff{Factor: 0.99}, map[int]time.Duration{1: s, 2: 2 * s}},
		"a cap":               {task.Backoff{Cap: 4 * s}, map[int]time.Duration{2: 2 * s, 3: 4 * s, 4: 4 * s}},
		"a cap below a pause": {task.Backoff{Cap: 3 * s}, map[int]time.Duration{2: 2 * s, 3: 3 * s}},
		"a cap below all":     {task.Backoff{Cap: s / 2}, map[int]time.Duration{1: s / 2, 9: s / 2}},
		"a list beside them":  {task.Backoff{List: []time.Duration{2 * time.Hour}, Base: s, Cap: s}, map[int]time.Duration{1: 2 * time.Hour}},
	} {
		c.b.NoJitter = true
		for n, want := range c.want {
			if got := c.b.After(n); got != want {
				t.Errorf("%s: after attempt %d %s, want %s", name, n, got, want)
			}
		}
	}
}
