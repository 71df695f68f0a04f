package scheduler

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-run/dibs/job"
)

// A pause is never shorter than the least nor longer than the longest, grows until it is that, and
// does not overflow.
func TestBackoff(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		n      int
		random float64
		want   time.Duration
	}{{1, 0, s}, {2, 0, 2 * s}, {3, 0, 4 * s}, {6, 0, 32 * s}, {7, 0, 60 * s}, {1, 1, 1250 * time.Millisecond}, {6, 1, 40 * s}, {7, 1, 60 * s}} {
		if got := backoff(job.Retries{Min: s, Max: 60 * s}, c.n, c.random); got != c.want {
			t.Errorf("after attempt %d, with %v: %s, want %s", c.n, c.random, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := job.Retries{Min: time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "min"))}
		r.Max = r.Min + time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "more"))
		n, random := rapid.IntRange(1, 1000).Draw(t, "n"), rapid.Float64Range(0, 1).Draw(t, "random")
		got, next := backoff(r, n, random), backoff(r, n+1, random)
		if got < r.Min || got > r.Max || next < got {
			t.Fatalf("%s after attempt %d and %s after the next, of %+v", got, n, next, r)
		}
	})
}
