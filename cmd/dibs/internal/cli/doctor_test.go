package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What many jobs have in common is said once; of many different findings of one check the first are shown. -v shows
// all.
func TestDoctorFolds(t *testing.T) {
	t.Setenv("DIBS_DIR", t.TempDir())
	m := filepath.Join(t.TempDir(), "jobs.yaml")
	text := "version: 1\napp: shop\njobs:\n"
	for i := range 14 {
		text += fmt.Sprintf("  - {name: endless-%d, schedule: '* * * * *', command: ['true']}\n", i)
		text += fmt.Sprintf("  - {name: long-%d, schedule: '* * * * *', command: ['true'], policy: {timeout_seconds: %d}}\n", i, 3600+60*i)
	}
	if err := os.WriteFile(m, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, folded, _ := outcomeOf(t, "doctor", m, "--store", t.TempDir())
	_, all, _ := outcomeOf(t, "doctor", "-v", m, "--store", t.TempDir())
	for _, c := range []struct {
		text, begins string
		n            int
	}{
		{folded, "warning  unbounded  " + m + ", 14 places: shop/endless-0, shop/endless-1, ", 1},
		{folded, "warning  timeout  " + m + " shop/long-", 5},
		{folded, "warning  timeout  and 9 more: " + m + ": shop/long-5, ", 1},
		{folded, "shop/endless-9 and 4 more\n", 1},
		{all, "warning  unbounded  " + m + " shop/endless-", 14},
		{all, "warning  timeout  " + m + " shop/long-", 14},
	} {
		if n := strings.Count(c.text, c.begins); n != c.n {
			t.Errorf("%q is there %d times, want %d:\n%s", c.begins, n, c.n, c.text)
		}
	}
}
