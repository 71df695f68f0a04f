package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxLength bounds an expression, in bytes: far more than 60 minutes spelled out.
const maxLength = 1000

const zonePrefix = "CRON_TZ="

var aliases = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

const aliasList = "@hourly @daily @midnight @weekly @monthly @yearly @annually or @every D"

func (o Options) parse(ws []word) (*Schedule, error) {
	dst, err := ParseDST(string(o.DST))
	if err != nil {
		return nil, err
	}
	zone := o.Zone
	if zone == nil {
		zone = time.UTC
	}
	if len(ws) > 0 && strings.HasPrefix(ws[0].text, zonePrefix) {
		if zone, err = LoadZone(strings.TrimPrefix(ws[0].text, zonePrefix)); err != nil {
			return nil, fmt.Errorf("%s at column %d: %w", strings.TrimSuffix(zonePrefix, "="), ws[0].at+1, err)
		}
		ws = ws[1:]
	}
	s := &Schedule{expr: join(ws), zone: zone, dst: dst}
	switch {
	case len(ws) == 0:
		err = errors.New("it is empty: want five fields (minute hour day-of-month month day-of-week) or " + aliasList)
	case strings.EqualFold(ws[0].text, "@every"):
		s.every, err = parseEvery(ws)
	case strings.HasPrefix(ws[0].text, "@"):
		err = o.parseAlias(s, ws)
	default:
		err = o.parseFields(s, ws)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (o Options) parseFields(s *Schedule, ws []word) error {
	if len(ws) < 5 || len(ws) > 7 {
		return fmt.Errorf("it has %d fields: want 5 (minute hour day-of-month month day-of-week), "+
			"6 with seconds first, or 7 with a year last as well", len(ws))
	}
	p := parser{name: o.Name, c: &calendar{second: 1}}
	if err := p.fields(ws); err != nil {
		return err
	}
	s.calendar, s.extended = p.c, p.extended
	if _, ever := p.c.nextDay(firstDay); !ever {
		return p.neverFires(ws)
	}
	if p.c.years == nil {
		return nil // what a calendar repeats, no gap of a clock hides for ever
	}
	if _, ever := s.Next(time.Unix(firstUnix-1, 0)); !ever {
		return errors.New("its times do not exist in its zone, so it never fires: want a time that exists")
	}
	return nil
}

func (o Options) parseAlias(s *Schedule, ws []word) error {
	name := strings.ToLower(ws[0].text)
	switch fields, known := aliases[name]; {
	case name == "@reboot":
		return errors.New("@reboot has no scheduled instant, so no two servers could agree on its tick: " +
			"start the command from a systemd unit or the host's own crontab")
	case !known:
		return fmt.Errorf("alias %q at column %d is unknown: want %s", ws[0].text, ws[0].at+1, aliasList)
	case len(ws) > 1:
		return fmt.Errorf("%q at column %d: nothing may follow %s", ws[1].text, ws[1].at+1, name)
	default:
		return o.parseFields(s, words(fields))
	}
}

func parseEvery(ws []word) (seconds int64, err error) {
	const want = "want one duration in whole seconds of at least 1s, such as @every 90m"
	if len(ws) != 2 {
		return 0, fmt.Errorf("@every is followed by %d words: %s", len(ws)-1, want)
	}
	d, err := time.ParseDuration(ws[1].text)
	if err != nil || d < time.Second || d%time.Second != 0 {
		return 0, fmt.Errorf("@every %q at column %d: %s", ws[1].text, ws[1].at+1, want)
	}
	return int64(d / time.Second), nil
}

// words splits at blanks and tabs, and drops line ends round the expression. Other white space stays in the words,
// and the fields refuse it.
func words(expr string) (ws []word) {
	const blank = " \t"
	end := len(strings.TrimRight(expr, blank+"\r\n"))
	for at := len(expr) - len(strings.TrimLeft(expr, blank+"\r\n")); at < end; {
		text := expr[at:end]
		if i := strings.IndexAny(text, blank); i >= 0 {
			text = text[:i]
		}
		if text != "" {
			ws = append(ws, word{text, at})
		}
		at += len(text) + 1
	}
	return ws
}

// join writes words with single blanks between them, and names in capitals.
func join(ws []word) string {
	texts := make([]string, len(ws))
	for i, w := range ws {
		texts[i] = w.text
	}
	s := strings.Join(texts, " ")
	if strings.HasPrefix(s, "@") {
		return s
	}
	return strings.ToUpper(s)
}
