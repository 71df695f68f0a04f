package doctor

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/schedule"
)

// A jump is a gap that daylight saving makes: at the instant, the wall clock goes on later.
type jump struct {
	at time.Time
	// from and to are what the clock shows before and after, as if in UTC: readings from the one to
	// before the other do not exist on that day.
	from, to time.Time
}

// nextJump is a zone's next gap within a year and some days; ok is false where there is none.
func nextJump(zone *time.Location, now time.Time) (j jump, ok bool) {
	for at := now; at.Before(now.AddDate(1, 0, 7)); {
		_, end := at.In(zone).ZoneBounds()
		if end.IsZero() {
			return j, false
		}
		_, before := end.Add(-time.Second).In(zone).Zone()
		_, after := end.In(zone).Zone()
		if after > before && end.After(now) {
			shows := func(offset int) time.Time { return end.UTC().Add(time.Duration(offset) * time.Second) }
			return jump{end.UTC(), shows(before), shows(after)}, true
		}
		if !end.After(at) { // a zone that reports a bound twice
			end = at.Add(24 * time.Hour)
		}
		at = end
	}
	return j, false
}

// gap tells of schedules at a fixed time that the wall clock will jump over.
func (s Setting) gap(spec *job.Spec, set schedule.Set) (all []Finding) {
	for _, m := range set.Schedules() {
		zone := m.Zone()
		j, ok := nextJump(zone, s.Now)
		if !ok {
			continue
		}
		reading, ok := jumpedOver(m, spec.Key(), j)
		if !ok {
			continue
		}
		then, cure := "The job runs once, at "+j.at.Format(time.RFC3339)+".", "Choose a time outside the gap if it must not move."
		if m.DST() != schedule.Vixie {
			then, cure = fmt.Sprintf("With dst: %s it is not due on that day.", m.DST()), "Choose a time outside the gap, or dst: vixie, if it must not be skipped."
		}
		all = append(all, found(Info, "dst-gap", s.where(spec), cure,
			"%q is due at %s, a time that does not exist in %s on %s: the clock jumps from %s to %s. %s", m,
			reading.Format("15:04"), zone, j.from.Format(time.DateOnly), j.from.Format("15:04"), j.to.Format("15:04"), then))
	}
	return all
}

// jumpedOver is the first reading of a schedule at a fixed time that lies in the gap. Schedules that
// follow elapsed time have no tick that moves: they are not due at the jump for a reading in it.
func jumpedOver(m *schedule.Schedule, name string, j jump) (time.Time, bool) {
	plain, err := schedule.Options{Zone: time.UTC, Name: name}.Parse(m.String()) // the readings, as instants
	if err != nil {
		return time.Time{}, false
	}
	moved, err := schedule.Options{Zone: m.Zone(), Name: name, DST: schedule.Vixie}.Parse(m.String())
	if err != nil {
		return time.Time{}, false
	}
	reading, ok := plain.Next(j.from.Add(-time.Second))
	if !ok || !reading.Before(j.to) {
		return time.Time{}, false
	}
	if due, ok := moved.Prev(j.at); !ok || !due.Equal(j.at) {
		return time.Time{}, false
	}
	// A tick at the jump that its own reading explains says nothing about the readings before it.
	if own, ok := plain.Prev(j.to); ok && own.Equal(j.to) {
		return time.Time{}, false
	}
	return reading, true
}
