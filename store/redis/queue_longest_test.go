package redis

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testsize"
)

// BenchmarkLongestStep tells for how long a call of each sort holds the server at most, which does nothing else
// meanwhile: 50 ms is the goal at a million tasks. Run it with -benchtime 1x; DIBS_TEST_LONG=1 is a million.
func BenchmarkLongestStep(b *testing.B) {
	c := config(b, ownServer(b).URL+"?read_timeout=1m")
	c.Init, c.TTL = true, time.Hour
	s := open(b, c)
	raw := rawClient(b, c)
	for k, v := range map[string]string{"slowlog-log-slower-than": "1000", "slowlog-max-len": "1024"} {
		if err := raw.ConfigSet(b.Context(), k, v).Err(); err != nil {
			b.Fatal(err)
		}
	}
	longest := map[string]time.Duration{}
	for b.Loop() {
		sc := &scale{TB: b, s: s, n: testsize.Of(1500, 50_000), step: func(what string, do func()) {
			if err := raw.Do(b.Context(), "SLOWLOG", "RESET").Err(); err != nil {
				b.Fatal(err)
			}
			do()
			slow, err := raw.SlowLogGet(b.Context(), -1).Result()
			if err != nil {
				b.Fatal(err)
			}
			for _, l := range slow {
				longest[what] = max(longest[what], l.Duration)
			}
		}}
		sc.run(20 * sc.n)
	}
	byTime := slices.SortedFunc(maps.Keys(longest), func(x, y string) int { return int(longest[y] - longest[x]) })
	for _, what := range byTime[:min(10, len(byTime))] {
		b.Logf("%-40s %s", what, longest[what])
	}
	if len(byTime) > 0 {
		b.ReportMetric(float64(longest[byTime[0]].Milliseconds()), "ms-longest")
	}
}
