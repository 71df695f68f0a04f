package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	// 2026-11-20 is a Friday.
	at := func(day int, clock string) time.Time {
		d, err := time.Parse("15:04:05", clock)
		if err != nil {
			t.Fatal(err)
		}
		return time.Date(2026, 11, day, d.Hour(), d.Minute(), d.Second(), 0, time.UTC)
	}
	for _, c := range []struct {
		window    string
		in, notIn []time.Time
	}{
		{"09:00-17:00", []time.Time{at(20, "09:00:00"), at(21, "16:59:59")}, []time.Time{at(20, "08:59:59"), at(20, "17:00:00")}},
		{"22:00-06:00", []time.Time{at(20, "22:00:00"), at(20, "00:00:00"), at(20, "05:59:59")}, []time.Time{at(20, "06:00:00"), at(20, "21:59:59")}},
		{"00:00-24:00", []time.Time{at(20, "00:00:00"), at(20, "23:59:59")}, nil},
		{"22:00-24:00", []time.Time{at(20, "23:59:59")}, []time.Time{at(20, "00:00:00")}},
		{"22:00-00:00", []time.Time{at(20, "23:59:59")}, []time.Time{at(20, "00:00:00")}},
		{"MON-FRI 09:00-17:00", []time.Time{at(20, "09:00:00")}, []time.Time{at(21, "09:00:00")}},
		{"FRI 22:00-06:00", []time.Time{at(20, "22:00:00"), at(21, "05:59:59")}, []time.Time{at(20, "05:59:59"), at(21, "22:00:00")}},
		{"SAT 22:00-06:00", []time.Time{at(22, "05:00:00")}, []time.Time{at(21, "05:00:00")}},
		{"sun,3 10:00-11:00", []time.Time{at(22, "10:30:00"), at(25, "10:30:00")}, []time.Time{at(23, "10:30:00")}},
	} {
		w, err := ParseWindow(c.window)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, at := range c.in {
			if !w.Contains(at) {
				t.Errorf("%s does not contain %s", c.window, at)
			}
		}
		for _, at := range c.notIn {
			if w.Contains(at) {
				t.Errorf("%s contains %s", c.window, at)
			}
		}
	}
}

func TestWindowErrors(t *testing.T) {
	for _, text := range []string{"", "09:00", "9:00-17:00", "09:00-17", "24:00-01:00", "09:00-24:01", "09:60-10:00", "09:00-09:00",
		"09:00 - 17:00", "MON", "XYZ 09:00-10:00", "MON 09:00-10:00 TUE", "-1:00-02:00", "09:00-+7:00"} {
		if w, err := ParseWindow(text); err == nil || !strings.Contains(err.Error(), "as in MON-FRI 09:00-17:00") {
			t.Errorf("%q: %+v, %v", text, w, err)
		}
	}
}
