package schedule

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

const page = "../docs/reference/schedules.md"

// rows lists the cells of the page's tables under the given header line.
func rows(t *testing.T, header string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == header:
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i, c := range cells {
				cells[i] = strings.TrimSpace(c)
			}
			rows = append(rows, cells)
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no table %s", page, header)
	}
	return rows
}

func TestDocumentedDescriptions(t *testing.T) {
	for _, row := range rows(t, "| expression | in words |") {
		if got := parsed(t, strings.Trim(row[0], "`"), "UTC").Description(); got != row[1] {
			t.Errorf("%s is %q, the page says %q", row[0], got, row[1])
		}
	}
}

func TestDocumentedAliases(t *testing.T) {
	for _, row := range rows(t, "| word | the same as |") {
		for _, word := range strings.Split(row[0], ", ") {
			a, b := parsed(t, strings.Trim(word, "`"), "UTC"), parsed(t, strings.Trim(row[1], "`"), "UTC")
			if *a.calendar != *b.calendar {
				t.Errorf("%s is not %s", word, row[1])
			}
		}
	}
}

// Holds: promise 15.
func TestDocumentedDaylightSaving(t *testing.T) {
	for _, row := range rows(t, "| expression | 10 March | 3 November |") {
		s := parsed(t, strings.Trim(row[0], "`"), "America/New_York")
		for i, day := range []time.Time{
			time.Date(2024, 3, 10, 0, 0, 0, 0, s.Zone()), time.Date(2024, 11, 3, 0, 0, 0, 0, s.Zone()),
		} {
			if got := earlyTicks(s, day); got != row[i+1] {
				t.Errorf("%s on %s: %s, the page says %s", row[0], day.Format(time.DateOnly), got, row[i+1])
			}
		}
	}
}

// TestDocumentedMeanings: the table of all three meanings names expression and day in its header.
func TestDocumentedMeanings(t *testing.T) {
	const header = "| dst | `30 2 * * *` 10 March | `0 1-3 * * *` 10 March | `30 1 * * *` 3 November | `*/30 1 * * *` 3 November | `0 1-3 * * *` 3 November |"
	cells := strings.Split(strings.Trim(header, "|"), "|")[1:]
	table := rows(t, header)
	if len(table) != 3 {
		t.Errorf("%d meanings: want 3", len(table))
	}
	for _, row := range table {
		for i, cell := range cells {
			_, rest, _ := strings.Cut(cell, "`")
			expr, date, _ := strings.Cut(rest, "`")
			s, err := Options{Zone: zone(t, "America/New_York"), DST: DST(strings.Trim(row[0], "`"))}.Parse(expr)
			if err != nil {
				t.Fatal(err)
			}
			day, err := time.ParseInLocation("2 January 2006", strings.TrimSpace(date)+" 2024", s.Zone())
			if err != nil {
				t.Fatal(err)
			}
			if got := earlyTicks(s, day); got != row[i+1] {
				t.Errorf("%s on %s, %s: %s, the page says %s", expr, date, row[0], got, row[i+1])
			}
		}
	}
}

// earlyTicks lists those of a day between 01:00 and 04:00.
func earlyTicks(s *Schedule, day time.Time) string {
	var shown []string
	for _, tick := range walk(s, day, day.AddDate(0, 0, 1)) {
		if local := tick.In(s.Zone()); local.Hour() >= 1 && local.Hour() < 4 {
			shown = append(shown, local.Format("15:04 MST"))
		}
	}
	if len(shown) == 0 {
		return "never"
	}
	return strings.Join(shown, ", ")
}

func TestDocumentedErrors(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^schedule ("[^"]*"): .*$`).FindAllStringSubmatch(string(text), -1)
	if len(lines) < 5 {
		t.Fatalf("%s shows %d errors", page, len(lines))
	}
	for _, line := range lines {
		expr, _ := strconv.Unquote(line[1])
		if _, err := Parse(expr, time.UTC); err == nil || err.Error() != line[0] {
			t.Errorf("the page says\n%s\nbut it is\n%v", line[0], err)
		}
	}
}
