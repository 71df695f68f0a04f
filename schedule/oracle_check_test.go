package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/dibs-run/dibs/internal/test/testsize"
	"github.com/dibs-run/dibs/schedule"
)

// oddZones are those of which the clocks do everything that clocks do.
var oddZones = []string{
	"UTC", "America/New_York", "Europe/London", "Europe/Dublin", "Europe/Berlin", "Australia/Lord_Howe",
	"Australia/Sydney", "Pacific/Apia", "Pacific/Kwajalein", "Pacific/Chatham", "Africa/Casablanca", "Africa/Cairo",
	"America/St_Johns", "America/Sao_Paulo", "America/Havana", "America/Caracas", "Asia/Kathmandu", "Asia/Pyongyang",
	"Asia/Gaza", "Asia/Tehran", "Antarctica/Troll", "Antarctica/Casey", "Africa/Juba", "Asia/Manila",
}

// changes lists the hours of a year, in UTC, before which a zone's clock changed.
func changes(zone *time.Location, year int) (all []time.Time) {
	for t := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); t.Year() == year; t = t.Add(time.Hour) {
		_, before := t.Add(-time.Hour).In(zone).Zone()
		if _, now := t.In(zone).Zone(); now != before {
			all = append(all, t)
		}
	}
	return all
}

// TestAgainstOracle compares Next, and Prev of what the schedule prints, with the oracle's for random
// expressions, zones, rules of daylight saving and instants, most of them near a change of the zone's clock.
// DIBS_TEST_LONG=1: at least 100,000 triples, about a minute.
// Holds: promise 15.
func TestAgainstOracle(t *testing.T) {
	testsize.Counts(t)
	triples := testsize.Of(3000, 110_000)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &comparison{TB: t, Rand: rand.New(rand.NewPCG(seed, 1)), changes: map[string][]time.Time{}, walls: map[string]*wall{}}
	for c.compared < triples && !t.Failed() {
		c.group()
	}
	t.Logf("%d triples, %d of them near a change of the clock, %d beyond the oracle's horizon; %d expressions that never fire",
		c.compared, c.nearChange, c.beyond, c.never)
	if c.nearChange < c.compared/2 || c.beyond > c.compared/5 {
		t.Error("that is not what this test means to compare")
	}
}

type comparison struct {
	testing.TB
	*rand.Rand
	changes                             map[string][]time.Time
	walls                               map[string]*wall
	compared, nearChange, beyond, never int
}

// place draws a zone and an instant, and says whether the clock changes near it.
func (c *comparison) place() (w *wall, around time.Time, change bool) {
	for range 3 {
		if w, around, change = c.anyPlace(); change {
			break
		}
	}
	return w, around, change
}

func (c *comparison) anyPlace() (*wall, time.Time, bool) {
	name, year := oddZones[c.IntN(len(oddZones))], 1976+c.IntN(130)
	if c.IntN(2) == 0 {
		year = 2005 + c.IntN(25) // where most of the odd changes are
	}
	w := c.walls[name]
	if w == nil {
		zone, err := time.LoadLocation(name)
		if err != nil {
			c.Fatal(err)
		}
		w = &wall{zone, map[int64]*[24 * 60]int64{}}
		c.walls[name] = w
	}
	key := fmt.Sprint(name, year)
	all, known := c.changes[key]
	if !known {
		all = changes(w.zone, year)
		c.changes[key] = all
	}
	if len(all) == 0 || c.IntN(8) == 0 {
		return w, time.Unix(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix()+c.Int64N(365*day), 0), false
	}
	return w, all[c.IntN(len(all))], true
}

// group compares a few instants of one expression at one place.
func (c *comparison) group() {
	w, around, change := c.place()
	dst := []string{"vixie", "vixie", "skip", "repeat"}[c.IntN(4)]
	make := maker{c.Rand, around.Year(), fmt.Sprintf("app/job-%d", c.IntN(1000))}
	expr, m := make.expression()
	o := newOracle(c, m, w, dst)
	options := schedule.Options{Zone: w.zone, Name: make.name, DST: schedule.DST(dst)}
	s, err := options.Parse(expr)
	if err != nil {
		c.never++
		if !strings.Contains(err.Error(), "never fires") || !o.never() {
			c.Errorf("%s in %s: %v", expr, w.zone, err)
		}
		return
	}
	printed, err := options.Parse(s.String())
	if err != nil || printed.String() != s.String() {
		c.Fatalf("%s prints as %s, and that as %s: %v", expr, s, printed, err)
	}
	at := around
	for range 6 {
		switch c.IntN(4) {
		case 0: // a tick, or just before one
			at = at.Add(time.Duration(-c.IntN(2)))
		case 1:
			at = around.Add(time.Duration(c.Int64N(int64(6*time.Hour))) - 3*time.Hour)
		default:
			at = around.Add(time.Duration(c.Int64N(int64(72*time.Hour))) - 36*time.Hour)
		}
		c.compared++
		if change {
			c.nearChange++
		}
		label := fmt.Sprintf("%s in %s (%s, %s)", expr, w.zone, dst, make.name)
		next := c.compare(label+": Next", at, s.Next, o.next)
		c.compare(label+": Prev", at, printed.Prev, o.prev)
		if at = next; at.IsZero() {
			at = around
		}
	}
}

type ask func(time.Time) (time.Time, bool)

func (c *comparison) compare(what string, at time.Time, ours, truth ask) time.Time {
	got, found := ours(at)
	want, ok := truth(at)
	if !ok {
		c.beyond++
		if away := got.Sub(at).Abs(); found && away < (horizon-3)*24*time.Hour {
			c.Errorf("%s(%s) is %s, where the oracle finds nothing", what, at.UTC().Format(time.RFC3339Nano), got)
		}
		return time.Time{}
	}
	if !found || !got.Equal(want) {
		c.Errorf("%s(%s) is %s, want %s", what, at.UTC().Format(time.RFC3339Nano), got, want)
	}
	return want
}
