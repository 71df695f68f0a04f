package schedule_test

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs/schedule"
)

// When is a job due next? In the zone whose clock its expression reads.
func Example() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := schedule.Parse("15 4 1 * *", berlin)
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 3, 15, 0, 0, 0, 0, time.UTC)
	for range 2 {
		at, _ = s.Next(at)
		fmt.Println(at.Format(time.RFC3339), "is", at.In(berlin).Format("15:04 on 2 January"))
	}
	// Output:
	// 2026-04-01T02:15:00Z is 04:15 on 1 April
	// 2026-05-01T02:15:00Z is 04:15 on 1 May
}
