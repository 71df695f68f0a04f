// Package schedule is the arithmetic of when a job is due: an expression and a time zone give
// instants. It has no clock of its own, imports nothing of ours, and a *Schedule never changes
// once it is parsed, so any number of goroutines may share one.
//
// Expressions are five-field cron (minute hour day-of-month month day-of-week), six fields with
// seconds first, seven with a year last too, the aliases @hourly @daily @midnight @weekly @monthly
// @yearly @annually, and @every D, which is anchored at the Unix epoch so that all servers agree
// on its ticks. Days may be ? L L-n LW nW n#k nL, and H is a value that the job's name chooses.
// docs/reference/schedules.md has the whole language.
//
// Two rules are Vixie cron's, to the letter:
//
// Days. When day-of-month and day-of-week are both restricted a day matches if either does; if
// one of the two fields STARTS with a star ("*/2" does) both must match. Ours is a & in front of
// the weekdays, which asks for both.
//
// Daylight saving. A schedule whose minute or hour field starts with a star follows elapsed time:
// it fires whenever the wall clock shows a matching reading, twice where the clock shows it
// twice. All others are fixed-time schedules and fire exactly once for each matching reading: the
// first time the clock shows it, or, where the clock jumps over it, at the first instant after
// the jump. A fixed reading is thus due at the first instant at which the wall clock has reached
// it; unlike Vixie's three hours there is no limit to the jump. Skip and Repeat are other meanings
// of fixed times: see DST.
//
// A tick is an instant in UTC and nothing else.
package schedule
