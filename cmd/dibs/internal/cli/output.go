package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// format is -o: table for people, json for programs (stable and documented).
type format string

func formatFlag(cmd *cobra.Command, to *format) {
	*to = "table"
	cmd.Flags().StringVarP((*string)(to), "output", "o", "table", "table or json")
}

func (f format) check() error {
	if f != "table" && f != "json" {
		return usage(fmt.Errorf("-o %q: want table or json", f))
	}
	return nil
}

// writeJSON writes v indented, with characters such as < as they are.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// answer prints what a command did: a value for programs, or words for people.
func (e env) answer(out format, value any, words string) error {
	if out == "json" {
		return writeJSON(e.stdout, value)
	}
	_, err := fmt.Fprintln(e.stdout, strings.TrimSuffix(words, "\n"))
	return err
}

// printable shows characters that do not print (controls, direction marks, bytes that are no
// text) as Go writes them in quotes.
func printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		s = s[n:]
	}
	return b.String()
}

// stampOf shows an instant in UTC to the second, or "-" where there is none.
func stampOf(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// stampIn shows an instant in UTC, with the job's zone beside it where that differs.
func stampIn(t time.Time, zone *time.Location) string {
	s := stampOf(t)
	if zone == nil || zone == time.UTC || zone.String() == "UTC" || t.IsZero() {
		return s
	}
	return s + " = " + t.In(zone).Format("Mon 2006-01-02 15:04:05 MST")
}

// took shows how long something lasted, or "-".
func took(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return "-"
	}
	return to.Sub(from).Round(time.Millisecond).String()
}

// parseTime reads an instant as people write it on a command line.
func parseTime(flag, s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, usage(fmt.Errorf("%s %q: want an instant such as 2026-11-21T04:15:00Z", flag, s))
}

// parseWhen reads an instant, or how long ago it was.
func parseWhen(flag, s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d).UTC(), nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.Add(-time.Duration(n) * 24 * time.Hour).UTC(), nil
		}
	}
	t, err := parseTime(flag, s)
	if err != nil {
		return t, usage(fmt.Errorf("%s %q: want an instant such as 2026-11-21T04:15:00Z, or how long ago, such as 90m, 24h or 7d", flag, s))
	}
	return t, nil
}
