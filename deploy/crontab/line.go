package crontab

import (
	"strings"
)

// A kind is what cron takes a line for.
type kind int

const (
	blank kind = iota // or a comment
	variable
	entry
	broken // cron ignores it, or the whole table
)

// A line is one of a crontab, taken apart.
type line struct {
	kind
	// name and value are a variable's.
	name, value string
	// when is an entry's schedule, its fields with one blank between them; user its user, in a system's table.
	when, user string
	// rest is all behind the schedule, and command all behind the user too, without blanks in front.
	rest, command string
}

const blanks = " \t"

// readLine takes one line apart, as cron does, without its line end. system says that entries have a user.
func readLine(s string, system bool) line {
	t := strings.TrimLeft(s, blanks)
	if strings.TrimRight(t, blanks+"\r") == "" || t[0] == '#' {
		return line{kind: blank}
	}
	if name, value, ok := readVariable(t); ok && name != "" {
		return line{kind: variable, name: name, value: value}
	} else if ok {
		return line{kind: blank} // cron sets nothing
	}
	n := 5
	if t[0] == '@' {
		n = 1
	}
	fields, rest := cutFields(t, n)
	l := line{kind: entry, when: strings.Join(fields, " "), rest: rest, command: rest}
	if system && len(fields) == n {
		user, command := cutFields(rest, 1)
		l.user, l.command = strings.Join(user, ""), command
	}
	if len(fields) < n || l.command == "" || !schedulish(fields) {
		return line{kind: broken}
	}
	return l
}

// schedulish reports whether fields look like those of a schedule, in any cron's dialect.
func schedulish(fields []string) bool {
	if len(fields) == 1 {
		return len(fields[0]) > 1
	}
	for _, f := range fields {
		if strings.Trim(f, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ*,-/~#?+") != "" {
			return false
		}
	}
	return true
}

// cutFields takes up to n fields off a line, and the blanks behind them.
func cutFields(s string, n int) (fields []string, rest string) {
	for range n {
		end := strings.IndexAny(s, blanks)
		if s == "" {
			break
		}
		if end < 0 {
			end = len(s)
		}
		fields = append(fields, s[:end])
		s = strings.TrimLeft(s[end:], blanks)
	}
	return fields, s
}

// readVariable reads NAME = VALUE as all crons do.
func readVariable(s string) (name, value string, ok bool) {
	name, value, _, ok = assignment(s)
	return name, value, ok
}

// assignment reads NAME = VALUE: both may be in quotes, and blanks round the sign and at the end are not part of them.
// A quote that does not end its word makes it no variable. quoted is the value's.
func assignment(s string) (name, value string, quoted, ok bool) {
	name, rest, _, ok := unquote(s, "="+spaces)
	rest, is := strings.CutPrefix(strings.TrimLeft(rest, spaces), "=")
	if !ok || !is {
		return "", "", false, false
	}
	value, rest, quoted, ok = unquote(strings.Trim(rest, spaces), "")
	return name, value, quoted, ok && rest == ""
}

// unquote takes a word off s: in quotes, or up to one of the characters of end.
func unquote(s, end string) (word, rest string, quoted, ok bool) {
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		word, rest, ok = strings.Cut(s[1:], s[:1])
		return word, rest, true, ok && !(end != "" && strings.Contains(word, "="))
	}
	if i := strings.IndexAny(s, end); i >= 0 {
		return s[:i], s[i:], false, true
	}
	return s, "", false, true
}

// percent reads a command as cron does: a bare percent sign ends it, and what follows is its standard input; a percent
// sign behind a backslash is itself. Of two backslashes Debian's cron takes one away, and cronie none, so then sure is
// false.
func percent(command string) (line string, input, sure bool) {
	var b strings.Builder
	sure = true
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case c == '%':
			return b.String(), true, sure
		case c == '\\' && i+1 < len(command) && command[i+1] == '%':
			b.WriteByte('%')
			i++
		case c == '\\' && i+1 < len(command):
			sure = sure && command[i+1] != '\\'
			b.WriteString(command[i : i+2])
			i++
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), false, sure
}

// splitLines cuts a text into lines with their ends. Together they are the text, byte for byte.
func splitLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// bare is a line without its end. A carriage return is part of what cron reads.
func bare(raw string) string { return strings.TrimSuffix(raw, "\n") }
