package schedule_test

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs/schedule"
)

// On 29 March 2026 the clocks of Berlin jump from 02:00 to 03:00, so nothing is 02:30 there. The
// option DST says what becomes of a job that is due then.
func ExampleOptions_Parse() {
	berlin, err := schedule.LoadZone("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, dst := range []schedule.DST{schedule.Vixie, schedule.Skip} {
		s, err := schedule.Options{Zone: berlin, DST: dst}.Parse("30 2 * * *")
		if err != nil {
			fmt.Println(err)
			return
		}
		at, _ := s.Next(time.Date(2026, 3, 28, 12, 0, 0, 0, berlin))
		fmt.Println(dst, at.In(berlin).Format("2 January 15:04"))
	}
	// Output:
	// vixie 29 March 03:00
	// skip 30 March 02:30
}

// H spreads jobs over an hour: each job's name chooses a minute, always the same one.
func ExampleOptions_Parse_names() {
	for _, name := range []string{"shop/invoices", "shop/cleanup"} {
		s, err := schedule.Options{Name: name}.Parse("H 4 * * *")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(name, s.Description())
	}
	// Output:
	// shop/invoices at 04:23 every day
	// shop/cleanup at 04:45 every day
}

// An error names the field, the value and its column. An expression that never fires is an error too.
func ExampleParse_errors() {
	_, err := schedule.Parse("0 25 * * *", time.UTC)
	fmt.Println(err)
	_, err = schedule.Parse("0 0 31 4 *", time.UTC)
	fmt.Println(err)
	// Output:
	// schedule "0 25 * * *": hour "25" at column 3: want 0-23
	// schedule "0 0 31 4 *": day-of-month "31" at column 5: month "4" has no such day, so it never fires: want a day of that month
}

// Description explains an expression, and Period is the shortest distance between two ticks.
func ExampleSchedule_Description() {
	for _, expr := range []string{"15 4 1 * *", "*/20 9-17 * * MON-FRI", "@every 90s"} {
		s, err := schedule.Parse(expr, time.UTC)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s (%s)\n", s, s.Description(), s.Period())
	}
	// Output:
	// 15 4 1 * *: at 04:15 on day 1 of the month (672h0m0s)
	// */20 9-17 * * MON-FRI: every 20 minutes of hours 9 to 17 on Monday to Friday (20m0s)
	// @every 90s: every 90 seconds (1m30s)
}

// A job with two schedules is due when either is. An instant at which both are due is one tick.
func ExampleUnion() {
	noon, err := schedule.Parse("0 12 * * *", time.UTC)
	if err != nil {
		fmt.Println(err)
		return
	}
	sixHours, err := schedule.Parse("0 */6 * * *", time.UTC)
	if err != nil {
		fmt.Println(err)
		return
	}
	both := schedule.Union(noon, sixHours)
	at := time.Date(2026, 3, 15, 7, 0, 0, 0, time.UTC)
	for range 3 {
		at, _ = both.Next(at)
		fmt.Println(at.Format("15:04"))
	}
	// Output:
	// 12:00
	// 18:00
	// 00:00
}

// A window is a part of the week by the wall clock of the instant's own location.
func ExampleParseWindow() {
	w, err := schedule.ParseWindow("MON-FRI 22:00-06:00")
	if err != nil {
		fmt.Println(err)
		return
	}
	// The window that begins on Friday evening ends on Saturday morning.
	saturday := time.Date(2026, 3, 14, 5, 0, 0, 0, time.UTC)
	fmt.Println(w.Contains(saturday), w.Contains(saturday.Add(24*time.Hour)))
	// Output:
	// true false
}
