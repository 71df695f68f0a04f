package scope

import (
	"regexp"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, c := range []struct{ job, want string }{
		{"shop/cleanup", "dibs-shop.cleanup-01a2.scope"},
		{"default/send-mail", "dibs-default.send-mail-01a2.scope"},
		{"../../etc", "dibs-......etc-01a2.scope"},
		{"a b%n\n", `dibs-a\x20b\x25n\x0a-01a2.scope`},
		{"zürich", `dibs-z\xc3\xbcrich-01a2.scope`},
		{"", "dibs--01a2.scope"},
	} {
		if got := nameOf(c.job, "01a2"); got != c.want {
			t.Errorf("%q: %s, want %s", c.job, got, c.want)
		}
	}
}

// Whatever comes from outside, systemd takes the name, and it is a run's own.
func FuzzNames(f *testing.F) {
	f.Add("shop/cleanup", strings.Repeat("ü", 300))
	f.Add(strings.Repeat("\x1f", 600), "x")
	valid := regexp.MustCompile(`^dibs-[A-Za-z0-9:_.\\-]*\.scope$`)
	f.Fuzz(func(t *testing.T, job, run string) {
		if got := nameOf(job, run); !valid.MatchString(got) || len(got) > 255 {
			t.Errorf("%q", got)
		}
	})
}
