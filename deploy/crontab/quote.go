package crontab

import (
	"errors"
	"fmt"
	"strings"
)

// plain are the characters that need no quotes in any POSIX shell. A percent sign is not among them.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@+=:,./-"

// quote writes a word for sh in a crontab.
//
// Crons differ in what they do to a backslash before another backslash: some take one away. So none of the two
// stands before a backslash or a percent sign of the word: the quotes are closed and opened between them.
func quote(word string) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	var b strings.Builder
	b.WriteByte('\'')
	after := byte(0)
	for i := 0; i < len(word); i++ {
		c := word[i]
		if after == '\\' && (c == '\\' || c == '%') {
			b.WriteString(`''`)
		}
		switch c {
		case '%':
			b.WriteString(`\%`)
		case '\'':
			b.WriteString(`'"'"'`)
		default:
			b.WriteByte(c)
		}
		after = c
	}
	b.WriteByte('\'')
	return b.String()
}

// checkWord refuses what a line of a crontab cannot hold. It does not quote a value, which may be private.
func checkWord(word string) error {
	for i := 0; i < len(word); i++ {
		if c := word[i]; c < ' ' && c != '\t' || c == 0x7f {
			return fmt.Errorf("it has the control character %#02x, which a line of a crontab cannot hold: leave it out, or put it into a script", c)
		}
	}
	return nil
}

// errShell says that a command is more than words.
var errShell = errors.New("it is more than one simple command")

// words reads a simple command as sh does: words with quotes, without anything that the shell would expand, redirect
// or join. Anything else is errShell: what it means is not proven by reading it.
func words(command string) (all []string, err error) {
	var b strings.Builder
	in := false // a word
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case c == ' ' || c == '\t':
			if in {
				all, in = append(all, b.String()), false
				b.Reset()
			}
		case c == '\'':
			end := strings.IndexByte(command[i+1:], '\'')
			if end < 0 {
				return nil, errShell
			}
			b.WriteString(command[i+1 : i+1+end])
			i, in = i+1+end, true
		case c == '"':
			end := strings.IndexByte(command[i+1:], '"')
			if end < 0 || strings.ContainsAny(command[i+1:i+1+end], "$`\\!") {
				return nil, errShell
			}
			b.WriteString(command[i+1 : i+1+end])
			i, in = i+1+end, true
		case strings.IndexByte(plain, c) >= 0 || c == '%':
			b.WriteByte(c)
			in = true
		default:
			return nil, errShell
		}
	}
	if in {
		all = append(all, b.String())
	}
	if len(all) == 0 {
		return nil, errShell
	}
	return all, nil
}
