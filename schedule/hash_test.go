package schedule

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHashIsForEver: another value would move every job of every fleet, and let servers of two
// versions disagree about its ticks.
func TestHashIsForEver(t *testing.T) {
	for _, c := range []struct{ expr, name, want string }{
		{"H H * * *", "shop/invoices", "23 8 * * *"},
		{"H H * * *", "shop/rates", "58 22 * * *"},
		{"H H H H H", "shop/invoices", "23 8 17 4 6"},
		{"H/15 * * * *", "shop/invoices", "8-59/15 * * * *"},
		{"h(0-29)/10 H(9-17) * * *", "shop/invoices", "3-29/10 17 * * *"},
		{"H H * * * *", "invoices", "25 10 * * * *"},
		{"0 0 * * H(FRI-7)", "shop/invoices", "0 0 * * 5"},
		{"0,H(30-59) 0 * * *", "shop/invoices", "0,53 0 * * *"},
	} {
		s, err := Options{Name: c.name}.Parse(c.expr)
		if err != nil {
			t.Fatal(err)
		}
		if want := parsed(t, c.want, "UTC"); *s.calendar != *want.calendar || s.String() != strings.ToUpper(c.expr) {
			t.Errorf("%s of %s is %s: %s, want %s", c.expr, c.name, s, s.Description(), c.want)
		}
	}
}

// TestHashErrors: what H cannot stand for.
func TestHashErrors(t *testing.T) {
	for expr, want := range map[string]string{
		"H/1 * * * *":       `minute "1" at column 3: want a step after H that is 2 or more, and no more than the 60 values`,
		"H(0-9)/11 * * * *": `minute "11" at column 8: want a step after H`,
		"H() * * * *":       `minute "H()" at column 1: want H, H(a-b), H/n or H(a-b)/n`,
		"H(5) * * * *":      `minute "H(5)" at column 1: want H, H(a-b)`,
		"H(0-5 * * * *":     `minute "H(0-5" at column 1: want H, H(a-b)`,
		"H5 * * * *":        `minute "H5" at column 1: want H, H(a-b)`,
		"H-5 * * * *":       `minute "H-5" at column 1: want H, H(a-b)`,
		"0 H(20-24) * * *":  `hour "24" at column 8: want 0-23`,
		"0 H(5-1) * * *":    `hour "H(5-1)" at column 3: the range ends before it begins: want H(1-5)`,
		"0 0 HW * *":        `day-of-month "H" at column 5: want 1-31`,
		"0 0 * * H#2":       `day-of-week "H" at column 9: want 0-7`,
	} {
		if _, err := (Options{Name: "app/job"}).Parse(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", expr, err, want)
		}
	}
}

// TestHashSpreads: a thousand jobs are spread over all minutes, none of which has many of them.
func TestHashSpreads(t *testing.T) {
	var minutes [60]int
	at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		s, err := Options{Name: "app/job-" + digits(i)}.Parse("H H * * *")
		if err != nil {
			t.Fatal(err)
		}
		next, _ := s.Next(at)
		minutes[next.Minute()]++
	}
	if least, most := slices.Min(minutes[:]), slices.Max(minutes[:]); least < 4 || most > 40 {
		t.Errorf("of 1000 jobs one minute has %d and another %d", least, most)
	}
}
