package doctor_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/doctor"
	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/tick"
)

func TestFleet(t *testing.T) {
	at := time.Date(2026, 11, 21, 2, 59, 0, 0, time.UTC)
	of := func(host, app string, state fleet.State, offset time.Duration) fleet.Member {
		return fleet.Member{Process: fleet.Process{Host: host, PID: 7, App: app, ClockOffset: &offset, Since: at}, State: state, Heard: at}
	}
	jobs := []tick.Job{{Name: "shop/a"}, {Name: "shop/b"}, {Name: "shop/old", Removed: at}, {Name: "a-key"}, {Name: "cron/fires-it"}}
	for name, c := range map[string]struct {
		members []fleet.Member
		want    []string // check: words
	}{
		"healthy":           {[]fleet.Member{of("web-1", "shop", fleet.Up, time.Second)}, nil},
		"nobody ever":       {nil, nil},
		"draining":          {[]fleet.Member{of("web-1", "shop", fleet.Draining, 0), of("web-2", "shop", fleet.Ended, 0)}, []string{"app-unserved: Nobody serves shop, with 2 jobs: its last server, web-1:7, is draining."}},
		"silent":            {[]fleet.Member{of("web-1", "shop", fleet.Silent, 0)}, []string{"app-unserved: Nobody serves shop", "server-gone: 1 server or worker died, or cannot reach the store, or is stopped: web-1:7"}},
		"of another app":    {[]fleet.Member{of("web-1", "gone", fleet.Ended, 0)}, nil},
		"all servers ended": {[]fleet.Member{of("web-1", "shop", fleet.Ended, 0)}, []string{"app-unserved: Nobody serves shop, with 2 jobs: its last server, web-1:7, ended at 2026-11-21T02:59:00Z."}},
		"all servers dead": {[]fleet.Member{of("web-1", "shop", fleet.Gone, 0), of("web-2", "shop", fleet.Gone, 0)},
			[]string{"app-unserved: Nobody serves shop", "server-gone: 2 servers or workers died, or cannot reach the store, or are stopped: web-1:7 since 2026-11-21T02:59:00Z, web-2:7"}},
		"one of two is gone": {[]fleet.Member{of("web-1", "shop", fleet.Gone, 0), of("web-2", "shop", fleet.Up, 0)}, []string{"server-gone: 1 server or worker died, or cannot reach the store, or is stopped: web-1:7"}},
		"clocks":             {[]fleet.Member{of("web-1", "shop", fleet.Up, -30*time.Second), of("web-2", "shop", fleet.Up, 2*time.Second)}, []string{"fleet-clock: 2 clocks are off the store's: web-1:7 by -30s, web-2:7 by 2s; ticks"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range doctor.Fleet("a store", fleet.Census{Now: at, Members: c.members}, jobs) {
				got = append(got, f.Check+": "+f.What)
				if want := f.Check == "app-unserved" && strings.Contains(f.What, "heard of"); (f.Severity == doctor.Error) != want || f.Cure == "" || f.Where != "a store" {
					t.Errorf("%+v", f)
				}
			}
			if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
