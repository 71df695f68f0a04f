package schedule

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// An expression that is wrong is refused with the place and with what is right.
// Holds: promise 25.
func TestParseErrors(t *testing.T) {
	const fields = "want 5 (minute hour day-of-month month day-of-week), 6 with seconds first, or 7 with a year last as well"
	for expr, want := range map[string]string{
		"61 * * * *":                            `schedule "61 * * * *": minute "61" at column 1: want 0-59`,
		"0 24 * * *":                            `schedule "0 24 * * *": hour "24" at column 3: want 0-23`,
		"  0 0 32 * *":                          `schedule "  0 0 32 * *": day-of-month "32" at column 7: want 1-31`,
		"0 0 1,0 * *":                           `day-of-month "0" at column 7: want 1-31`,
		"0 0 * 13 *":                            `month "13" at column 7: want 1-12 or JAN-DEC`,
		"0 0 * * \u017fUN":                      "day-of-week \"\u017fUN\" at column 9: want 0-7",
		"0 0 * JUNE *":                          `month "JUNE" at column 7: want 1-12 or JAN-DEC`,
		"0 0 * * 8":                             `day-of-week "8" at column 9: want 0-7 or SUN-SAT, where 0 and 7 are Sunday`,
		"0 ? * * *":                             `hour "?" at column 3: want 0-23`,
		"0 0 ?,1 * *":                           `day-of-month "?" at column 5: want 1-31, L, L-3, LW or 15W`,
		"0 0 ?/2 * *":                           `day-of-month "?" at column 5: want 1-31`,
		"0 0 &1 * MON":                          `day-of-month "&1" at column 5: want 1-31`,
		"0 0 * * &":                             `day-of-week "" at column 10: empty item of a list: want 0-7`,
		"0 0 * * &&1":                           `day-of-week "&1" at column 10: want 0-7`,
		"0 0 L-31 * *":                          `day-of-month "L-31" at column 5: want L, or L-1 to L-30 for that many days before the last`,
		"0 0 LL * *":                            `day-of-month "LL" at column 5: want L, or`,
		"0 0 L/2 * *":                           `day-of-month "L/2" at column 5: want L, or`,
		"0 0 L-5-3 * *":                         `day-of-month "L-5-3" at column 5: want L, or`,
		"0 0 5,W * *":                           `day-of-month "" at column 7: want 1-31`,
		"0 0 1-5W * *":                          `day-of-month "1-5" at column 5: want 1-31`,
		"0 0 32W * *":                           `day-of-month "32" at column 5: want 1-31`,
		"0 0 WL * *":                            `day-of-month "WL" at column 5: want 1-31`,
		"L * * * *":                             `minute "L" at column 1: want 0-59`,
		"0 0 * L *":                             `month "L" at column 7: want 1-12 or JAN-DEC`,
		"0 0 * * L":                             `day-of-week "L" at column 9: of which weekday the last: want SATL`,
		"0 0 * * 8L":                            `day-of-week "8" at column 9: want 0-7`,
		"0 0 * * 5#6":                           `day-of-week "6" at column 11: want 1-5 after #`,
		"0 0 * * #2":                            `day-of-week "" at column 9: want 0-7`,
		"0 0 * * 1-5#2":                         `day-of-week "1-5" at column 9: want 0-7`,
		"0 0 * * 5#2/2":                         `day-of-week "2/2" at column 11: want 1-5 after #`,
		"H * * * *":                             `minute "H" at column 1: H depends on the name of a job, and there is none here`,
		"0 0 1 1 * 2027":                        `day-of-week "2027" at column 11: want 0-7`,
		"0 0 1 1 * 1999 ":                       `a year is the last of seven fields, of which seconds are the first`,
		"60 * * * * *":                          `second "60" at column 1: want 0-59`,
		"0 0 0 1 1 * 1969":                      `year "1969" at column 13: want 1970-9999`,
		"0 0 0 1 1 * 10000":                     `year "10000" at column 13: want 1970-9999`,
		"0 0 0 1 1 * H":                         `year "H" at column 13: want 1970-9999`,
		"0 0 0 1 1 * 2030-2020":                 `the range ends before it begins`,
		"0 0 0 29 2 ? 2095":                     `so it never fires: want fields that have a date in common`,
		"0 0 31W 2 *":                           `day-of-month "31W" at column 5: month "2" has no such day, so it never fires`,
		"0 0 L-30 4 *":                          `month "4" has no such day, so it never fires`,
		"0 0 1-7 * &MON#2":                      `no date matches day-of-month "1-7", month "*", day-of-week "&MON#2", so it never fires`,
		"0 0 30 2 &MON":                         `month "2" has no such day, so it never fires`,
		"0 0 0 0 * * * *":                       "it has 8 fields: " + fields,
		"*/0 * * * *":                           `minute "0" at column 3: want a step that is a whole number from 1`,
		"*/ * * * *":                            `minute "" at column 3: want a step that is a whole number from 1`,
		"*/5/2 * * * *":                         `minute "5/2" at column 3: want a step`,
		"1,,2 * * * *":                          `minute "" at column 3: empty item of a list: want 0-59`,
		"1, * * * *":                            `minute "" at column 3: empty item of a list`,
		"** * * * *":                            `minute "**" at column 1: want 0-59`,
		"*-5 * * * *":                           `minute "*" at column 1: want 0-59`,
		"-5 * * * *":                            `minute "" at column 1: want 0-59`,
		"+5 * * * *":                            `minute "+5" at column 1: want 0-59`,
		"1-2-3 * * * *":                         `minute "2-3" at column 3: want 0-59`,
		"99999999 * * * *":                      `minute "99999999" at column 1: want 0-59`,
		"0 22-2 * * *":                          `hour "22-2" at column 3: the range ends before it begins: want 22-23,0-2`,
		"0 0 * NOV-FEB *":                       `month "NOV-FEB" at column 7: the range ends before it begins: want NOV-12,1-FEB`,
		"0 0 30 2 *":                            `day-of-month "30" at column 5: month "2" has no such day, so it never fires: want a day of that month`,
		"0 0 31 4,6 */2":                        `day-of-month "31" at column 5: month "4,6" has no such day, so it never fires`,
		"* * * *":                               "it has 4 fields: " + fields,
		"0 0 *\u00a0* * *":                      `want 1-31`,
		"":                                      "it is empty: want five fields",
		" \t ":                                  "it is empty: want five fields",
		"@reboot":                               "@reboot has no scheduled instant",
		"@Dayly":                                `alias "@Dayly" at column 1 is unknown: want @hourly @daily`,
		"@daily 5":                              `"5" at column 8: nothing may follow @daily`,
		"@every":                                "@every is followed by 0 words: want one duration in whole seconds of at least 1s",
		"@every 1 h":                            "@every is followed by 2 words",
		"@every 500ms":                          `@every "500ms" at column 8: want one duration in whole seconds of at least 1s`,
		"@every 1.5s":                           `@every "1.5s" at column 8`,
		"@every -5m":                            `@every "-5m" at column 8`,
		"@every 90":                             `@every "90" at column 8`,
		"CRON_TZ=Mars/Base 0 0 * * *":           `CRON_TZ at column 1: zone "Mars/Base" is unknown: want an IANA name`,
		"CRON_TZ=Local 0 0 * * *":               `zone "Local" is no place`,
		"CRON_TZ=UTC":                           "it is empty",
		"TZ=UTC 0 0 * * *":                      `second "TZ=UTC" at column 1`,
		strings.Repeat("1,", 600) + "1 * * * *": "1209 bytes are too many: want at most 1000",
	} {
		_, err := Parse(expr, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", expr, err, want)
		}
	}
}

// TestSameMeaning: both spellings of a line parse to the same calendar.
func TestSameMeaning(t *testing.T) {
	for a, b := range map[string]string{
		"@hourly":                 "0 * * * *",
		"@daily":                  "0 0 * * *",
		"@midnight":               "0 0 * * *",
		"@weekly":                 "0 0 * * SUN",
		"@Weekly":                 "0 0 * * SUN",
		"@Every 90m":              "@every 90m",
		"@monthly":                "0 0 1 * *",
		"@yearly":                 "0 0 1 1 *",
		"@annually":               "0 0 1 jan *",
		"0 0 * * 7":               "0 0 * * 0",
		"0 0 * * FRI-MON":         "0 0 * * 0,1,5,6",
		"0 0 * * 5-1":             "0 0 * * fri,sat,sun,mon",
		"0 0 * * 5-7":             "0 0 * * 0,5,6",
		"0 0 * * 7-2":             "0 0 * * 0-2",
		"0 0 * * 7-7":             "0 0 * * 0",
		"0 0 * * 0-7":             "0 0 * * 0-6",
		"0 0 * * SAT-SUN":         "0 0 * * 6,7",
		"0 0 * * FRI-MON/2":       "0 0 * * 5,7",
		"0 0 * * 6-6":             "0 0 * * Sat",
		"5/15 * * * *":            "5,20,35,50 * * * *",
		"10-40/15 * * * *":        "10,25,40 * * * *",
		"05 004 * * *":            "5 4 * * *",
		" 5\t4  * * *\n":          "5 4 * * *",
		"0 0 * Mar-mAY/2 *":       "0 0 * 3,5 *",
		"*/90 * * * *":            "*/60 * * * *",
		"0 0 * * */7":             "0 0 * * */100",
		"0-59 * * * *":            "0-58,59 * * * *",
		"CRON_TZ=UTC 5 4 * * *":   "5 4 * * *",
		"0 5 4 * * *":             "5 4 * * *",
		"0 5 4 ? * * *":           "5 4 * * *",
		"0 0 ? * fri":             "0 0 * * FRI",
		"0 0 13 * ?":              "0 0 13 * *",
		"0 0 13 * &*":             "0 0 13 * *",
		"0 0 * * &FRI":            "0 0 * * FRI",
		"0 0 l-0 * *":             "0 0 L * *",
		"0 0 lw * *":              "0 0 LW * *",
		"0 0 l-3w * *":            "0 0 L-3W * *",
		"0 0 * * 5l":              "0 0 * * FRIL",
		"0 0 * * 7L":              "0 0 * * 0L",
		"0 0 * * 7#1":             "0 0 * * sun#1",
		"0 0 0 1 1 ? 2030-2040/5": "0 0 0 1 1 ? 2040,2035,2030",
	} {
		x, y := parsed(t, a, "UTC"), parsed(t, b, "UTC")
		if !reflect.DeepEqual(x.calendar, y.calendar) {
			t.Errorf("%q is %+v, %q is %+v", a, *x.calendar, b, *y.calendar)
		}
	}
}

func TestZonePrefix(t *testing.T) {
	s := parsed(t, "CRON_TZ=Asia/Kathmandu  0 12 * * mon-fri", "America/New_York")
	if s.Zone().String() != "Asia/Kathmandu" || s.String() != "0 12 * * MON-FRI" {
		t.Errorf("zone %s, expression %q", s.Zone(), s)
	}
	next, _ := s.Next(instant(t, "2024-06-03T00:00:00Z"))
	if got := next.Format(time.RFC3339); got != "2024-06-03T06:15:00Z" {
		t.Errorf("noon in Kathmandu is %s", got)
	}
}

// TestDayRule is Vixie's: OR, unless one of the two day fields starts with a star.
func TestDayRule(t *testing.T) {
	for expr, want := range map[string]string{
		"0 0 13 * FRI":   "1 8 13 15 22 29", // Fridays, and the 13th
		"0 0 */2 * FRI":  "1 15 29",
		"0 0 13 * */5":   "",   // the 13th is no Sunday and no Friday
		"0 0 8-14 * */7": "10", // the second Sunday
		"0 0 1-31 * FRI": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31",
		"0 0 * * FRI":    "1 8 15 22 29",
		"0 0 13 * *":     "13",
		"0 0 13,*/9 * 5": "1 8 10 13 15 19 22 28 29", // a star further on does not count
		"0 0 */9,13 * 5": "1",                        // and it does at the start
	} {
		start := instant(t, "2024-03-01T00:00:00Z")
		var got []string
		for _, tick := range walk(parsed(t, expr, "UTC"), start, start.AddDate(0, 1, 0)) {
			got = append(got, tick.Format("2"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: days %v, want %s", expr, got, want)
		}
	}
}

func TestDescription(t *testing.T) {
	for expr, want := range map[string]string{
		"* * * * *":             "every minute",
		"*/15 * * * *":          "every 15 minutes",
		"0,30 * * * *":          "every 30 minutes",
		"*/7 * * * *":           "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour",
		"5 * * * *":             "at minute 5 of every hour",
		"* 9-17 * * *":          "every minute of hours 9 to 17 every day",
		"*/10 9-17 * * 1-5":     "every 10 minutes of hours 9 to 17 on Monday to Friday",
		"15 4 1 * *":            "at 04:15 on day 1 of the month",
		"@daily":                "at 00:00 every day",
		"0 9,12,15 * * *":       "at 09:00, 12:00 and 15:00 every day",
		"5 */2 * * *":           "at minute 5 of every 2nd hour",
		"0 0-6,20-23 * * *":     "at minute 0 of hours 0 to 6 and 20 to 23 every day",
		"0 0 * 1,7 *":           "at 00:00 every day in January and July",
		"0 0 1 1 *":             "at 00:00 on day 1 of the month in January",
		"0 0 13 * FRI":          "at 00:00 on day 13 of the month or on Friday",
		"0 0 1-7 * */7":         "at 00:00 on days 1 to 7 of the month if it is Sunday",
		"0 12 * * 6,0":          "at 12:00 on Sunday and Saturday",
		"*/5 * * 6-8 SAT":       "every 5 minutes on Saturday in June to August",
		"0 0 1-31 * FRI":        "at 00:00 every day",
		"@every 90m":            "every 90 minutes",
		"@every 1h":             "every hour",
		"@every 36h":            "every 36 hours",
		"@every 45s":            "every 45 seconds",
		"CRON_TZ=UTC 0 6 * * *": "at 06:00 every day",
	} {
		if got := parsed(t, expr, "Europe/Berlin").Description(); got != want {
			t.Errorf("%s:\n got %s\nwant %s", expr, got, want)
		}
	}
}

// FuzzParse: what parses prints as something that parses to the same, and answers in bounded time.
func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, expr string) {
		o := Options{Zone: time.UTC, Name: "app/job"}
		s, err := o.Parse(expr)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "schedule ") {
				t.Errorf("%q: error does not say what it is of: %v", expr, err)
			}
			return
		}
		o.Zone = s.Zone()
		again, err := o.Parse(s.String())
		if err != nil {
			t.Fatalf("%q prints as %q: %v", expr, s, err)
		}
		if again.String() != s.String() || again.every != s.every || !reflect.DeepEqual(again.calendar, s.calendar) {
			t.Fatalf("%q prints as %q, which is another schedule", expr, s)
		}
		at := time.Date(2024, 3, 10, 6, 59, 59, 0, time.UTC)
		next, ok := s.Next(at)
		if prev, found := s.Prev(next); ok && (!found || !prev.Equal(next) || !next.After(at)) {
			t.Fatalf("%q: Next %s, whose Prev is %s", expr, next, prev)
		}
		if prev, found := s.Prev(at); !ok && !found || found && prev.After(at) {
			t.Fatalf("%q: Prev %s, %v, and no Next", expr, prev, found)
		}
		if _, second := s.Next(next); s.Period() < 0 || s.Period() == 0 && ok && second {
			t.Fatalf("%q: period %s", expr, s.Period())
		}
		if d := s.Description(); d == "" || len(d) > 2*maxLength {
			t.Fatalf("%q: description %q", expr, d)
		}
	})
}

// TestCorpus: a fuzz test without its corpus passes and tests nothing.
func TestCorpus(t *testing.T) {
	seeds, err := os.ReadDir("testdata/fuzz/FuzzParse")
	if err != nil || len(seeds) < 20 {
		t.Errorf("the seed corpus has %d entries (%v): it should have at least 20", len(seeds), err)
	}
}
