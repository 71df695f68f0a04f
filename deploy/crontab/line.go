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
	if name, value, ok := readVariable(t); ok {
		return line{kind: variable, name: name, value: value}
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

// readVariable reads NAME = VALUE as cron does: both may be in quotes, and blanks round the sign and at the end
// are not part of them.
func readVariable(s string) (name, value string, ok bool) {
	if s[0] == '"' || s[0] == '\'' {
		end := strings.IndexByte(s[1:], s[0])
		if end < 0 {
			return "", "", false
		}
		name, s = s[1:1+end], s[end+2:]
	} else {
		end := strings.IndexAny(s, "="+blanks)
		if end < 0 {
			return "", "", false
		}
		name, s = s[:end], s[end:]
	}
	s = strings.TrimLeft(s, blanks)
	if name == "" || s == "" || s[0] != '=' {
		return "", "", false
	}
	value = strings.Trim(s[1:], blanks+"\r\n")
	if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	return name, value, true
}

// percent reads a command as cron does: a bare percent sign ends it, and what follows is its standard input, with
// further ones as line ends; a percent sign behind a backslash is itself.
func percent(command string) (line, input string, hasInput bool) {
	var b strings.Builder
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case c == '%':
			return b.String(), command[i+1:], true
		case c == '\\' && i+1 < len(command) && command[i+1] == '%':
			b.WriteByte('%')
			i++
		case c == '\\' && i+1 < len(command):
			b.WriteString(command[i : i+2])
			i++
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", false
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
