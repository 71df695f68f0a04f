package schedule_test

import (
	"testing"
	"time"

	"github.com/dibs-run/dibs/schedule"
)

// The edges of months and centuries.
func TestEdgesOfTheCalendar(t *testing.T) {
	for _, c := range []struct{ expr, after, want string }{
		{"0 0 1W * *", "2022-09-30T00:00:00Z", "2022-10-03T00:00:00Z"},  // the 1st is a Saturday, and the Friday is another month's
		{"0 0 1W * *", "2022-12-31T00:00:00Z", "2023-01-02T00:00:00Z"},  // the 1st is a Sunday
		{"0 0 31W * *", "2022-12-01T00:00:00Z", "2022-12-30T00:00:00Z"}, // the 31st is a Saturday
		{"0 0 31W * *", "2023-12-01T00:00:00Z", "2023-12-29T00:00:00Z"}, // the 31st is a Sunday, and the Monday is another month's
		{"0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},  // 2100 is no leap year
		{"0 0 29 2 *", "1996-03-01T00:00:00Z", "2000-02-29T00:00:00Z"},  // 2000 was one
		{"0 0 L 2 *", "2099-03-01T00:00:00Z", "2100-02-28T00:00:00Z"},   //
		{"0 0 1 3 MON", "2100-02-28T12:00:00Z", "2100-03-01T00:00:00Z"}, // which is a Monday, as the day before is the 28th
	} {
		s, err := schedule.Options{Zone: time.UTC, Name: "j"}.Parse(c.expr)
		if err != nil {
			t.Fatal(c.expr, err)
		}
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		if next, _ := s.Next(after); next.Format(time.RFC3339) != c.want {
			t.Errorf("%s after %s: %s, want %s", c.expr, c.after, next.Format(time.RFC3339), c.want)
		}
	}
}
