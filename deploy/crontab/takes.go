package crontab

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/dibs-run/dibs/deploy/internal/users"
)

// spaces are what cron skips round the sign of a variable, and at the end of its value.
const spaces = " \t\v\f\r\n"

// LineByLine reports whether the installed cron leaves out a line that it cannot read, as cronie and busybox do, and
// not the whole table, as Debian's does.
func LineByLine() bool {
	_, debian := os.Stat("/usr/sbin/cron")
	_, other := os.Stat("/usr/sbin/crond")
	return debian != nil && other == nil
}

// unread returns why Debian's cron does not read a line of a crontab, given with its end; "" if it does. It then
// ignores the whole table. cronie and busybox leave out the line alone, and take a few more. TestDebiansCron compares
// this with the daemon.
func (l layout) unread(raw string) string {
	s, ended := strings.CutSuffix(raw, "\n")
	t, _, null := strings.Cut(strings.TrimLeft(s, blanks), "\x00")
	name, value, quoted, assigned := assignment(t)
	switch {
	case t == "" && !null, strings.HasPrefix(t, "#"):
		return ""
	case !ended:
		return "it has no line end"
	case assigned && value == "" && !quoted:
		return fmt.Sprintf("it sets %s to nothing: write %s=\"\"", name, name)
	case assigned:
		return ""
	}
	rest := t
	if strings.HasPrefix(t, "@") {
		fields, behind := cutFields(t, 1)
		if !slices.Contains(nicknames, fields[0]) {
			return "bad time specifier"
		}
		rest = behind
	} else {
		for _, f := range fieldsOfCron {
			fields, behind := cutFields(rest, 1)
			if len(fields) == 0 || !f.read(fields[0]).ok {
				return "bad " + f.name
			}
			rest = behind
		}
	}
	return l.unreadCommand(rest)
}

// unsure begins a reason that is none of cron's: dibs cannot tell.
const unsure = "it is not known whether cron reads it: "

// unreadCommand is unread for all behind the schedule.
func (l layout) unreadCommand(rest string) string {
	if l.system {
		name, command, more := strings.Cut(strings.ReplaceAll(rest, "\t", " "), " ")
		switch {
		case name == "" || !more:
			return "it has no command"
		}
		switch known, err := l.knows(name); {
		case err != nil:
			return fmt.Sprintf(unsure+"its user %q cannot be looked up: %v: try again when this host's directory service answers", name, err)
		case !known:
			return fmt.Sprintf("there is no user %q here", name)
		}
		rest = strings.TrimLeft(command, blanks)
	}
	switch {
	case !l.system && strings.HasPrefix(rest, "*"):
		return "it has six fields"
	case len(rest) > longest:
		return fmt.Sprintf("its command has more than %d bytes", longest)
	}
	return ""
}

// knows reports whether a user exists here; the error says why nobody can tell.
func (l layout) knows(name string) (bool, error) {
	if l.users != nil {
		return l.users(name)
	}
	return users.Known(name)
}

var nicknames = []string{"@reboot", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// A cronField is one of a schedule, as cron reads it.
type cronField struct {
	name   string
	lo, hi int
	names  []string
}

var fieldsOfCron = []cronField{{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day-of-month", 1, 31, nil},
	{"month", 1, 12, monthNames[1:]}, {"day-of-week", 0, 7, append(slices.Clone(weekdayNames), "SUN")}}

// A taken field says how Debian's cron takes a text.
type taken struct {
	// ok: cron does not reject it. junk is the part that it skips; empty, that a range of it has no value; random,
	// that cron chooses a value when it reads the table.
	ok            bool
	junk          string
	empty, random bool
}

func (f cronField) read(text string) (t taken) {
	t.ok = true
	for {
		rest, ok := f.span(text, &t)
		if !ok {
			return taken{}
		}
		if text, ok = strings.CutPrefix(rest, ","); !ok {
			t.junk = rest
			return t
		}
	}
}

// span reads one item of a list: a star, a number or a range, with its step.
func (f cronField) span(text string, t *taken) (rest string, ok bool) {
	from, to, step := f.lo, f.hi, 1
	rest, star := strings.CutPrefix(text, "*")
	if !star {
		if from, rest, ok = f.number(text); !ok || strings.HasPrefix(rest, "/") {
			return "", false
		}
		switch {
		case strings.HasPrefix(rest, "~"):
			t.random = true
			if n, behind, is := f.number(rest[1:]); is {
				to, rest = n, behind
			} else {
				rest = rest[1:]
			}
		case strings.HasPrefix(rest, "-"):
			if to, rest, ok = f.number(rest[1:]); !ok {
				return "", false
			}
		default:
			return rest, from >= f.lo && from <= f.hi
		}
	}
	if min(from, to) < f.lo || max(from, to) > f.hi {
		return "", false
	}
	if by, stepped := strings.CutPrefix(rest, "/"); stepped {
		if step, rest, ok = (cronField{}).number(by); !ok || step == 0 {
			return "", false
		}
	}
	t.empty = t.empty || from > to
	return rest, true
}

// number reads a number or a name.
func (f cronField) number(text string) (n int, rest string, ok bool) {
	end := len(text) - len(strings.TrimLeft(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	word, rest := text[:end], text[end:]
	for i, name := range f.names {
		if strings.EqualFold(name, word) {
			return f.lo + i, rest, true
		}
	}
	n, err := strconv.Atoi(word)
	return n, rest, err == nil
}
