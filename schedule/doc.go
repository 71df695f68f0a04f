// Package schedule computes when a job is due: an expression and a time zone give instants.
//
//	berlin, err := schedule.LoadZone("Europe/Berlin")
//	s, err := schedule.Parse("15 4 1 * *", berlin)
//	next, ok := s.Next(time.Now()) // in UTC
//
// A [Schedule] has Next and Prev, its shortest Period, and a Description in plain English. A [Set] is the union of
// several schedules. A [Window] is a part of the week, such as MON-FRI 09:00-17:00. All of them are immutable and
// safe for concurrent use.
//
// # Expressions
//
// Expressions are five-field cron (minute hour day-of-month month day-of-week), six fields with seconds first, seven
// with a year last too, the aliases @hourly @daily @midnight @weekly @monthly @yearly @annually, and @every D, which
// counts from the Unix epoch so that all servers agree on its ticks. Days may be ? L L-n LW nW n#k nL, and H is a
// value that the job's name chooses. docs/reference/schedules.md describes the whole language.
//
// Two rules are exactly those of Vixie cron:
//
// Days. If day-of-month and day-of-week are both restricted, a day matches if either does. If one of the two fields
// STARTS with a star ("*/2" does), both must match. An & before the weekdays, an addition of dibs, requires both.
//
// Daylight saving. A schedule whose minute or hour field starts with a star follows elapsed time: it fires whenever
// the wall clock shows a matching reading, twice if the clock shows it twice. All other schedules are fixed-time
// schedules and fire exactly once for each matching reading: the first time the clock shows it or, if the clock
// jumps over it, at the first instant after the jump. There is no limit to the jump, unlike Vixie's three hours.
// Skip and Repeat treat fixed times differently: see [DST].
//
// # For maintainers
//
// The package has no clock of its own and imports no other package of dibs. A tick is an instant in UTC and nothing
// else. calendar.go and days.go work on wall-clock readings without a zone; zone.go and schedule.go map readings to
// instants.
package schedule
