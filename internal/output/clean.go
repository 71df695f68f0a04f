package output

import (
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// A Cleaner is an output of this process. Most of what it prints contains text from outside (an answer, a path, a
// name, a command line), which must not control the terminal: control characters, and characters that change the
// direction of text, are written as \u009b, as in JSON. It is safe for concurrent use.
type Cleaner struct {
	to io.Writer

	mu   sync.Mutex
	rest []byte // the beginning of a character
}

// NewCleaner returns a Cleaner that writes to an output.
func NewCleaner(to io.Writer) *Cleaner { return &Cleaner{to: to} }

// AsIs returns the output behind a Cleaner, for what is passed on byte by byte.
func AsIs(w io.Writer) io.Writer {
	if c, ok := w.(*Cleaner); ok {
		return c.to
	}
	return w
}

// Verbatim is AsIs for text from outside: byte by byte, unless it goes to a terminal.
func Verbatim(w io.Writer) io.Writer {
	if f, ok := AsIs(w).(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
			return w
		}
	}
	return AsIs(w)
}

func (c *Cleaner) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := b
	if len(c.rest) > 0 {
		text = append(c.rest, b...)
		c.rest = nil
	}
	if n := incomplete(text); n > 0 {
		c.rest = append([]byte{}, text[len(text)-n:]...)
		text = text[:len(text)-n]
	}
	if _, err := c.to.Write(Clean(text)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// End writes an incomplete character at the end.
func (c *Cleaner) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rest) > 0 {
		_, _ = c.to.Write(Clean(c.rest))
		c.rest = nil
	}
}

// incomplete returns how many bytes at the end begin a character.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Clean returns b with everything escaped that controls a terminal, except line ends and tabs. Text without such
// characters is returned unchanged.
func Clean(b []byte) []byte {
	var out []byte
	for at := 0; at < len(b); {
		r, n := utf8.DecodeRune(b[at:])
		invalid := r == utf8.RuneError && n == 1
		switch {
		case !invalid && !speaks(r):
			if out != nil {
				out = append(out, b[at:at+n]...)
			}
		default:
			if out == nil {
				out = append(make([]byte, 0, len(b)+16), b[:at]...)
			}
			out = appendEscaped(out, r, invalid, b[at])
		}
		at += n
	}
	if out == nil {
		return b
	}
	return out
}

func appendEscaped(out []byte, r rune, invalid bool, first byte) []byte {
	switch {
	case invalid:
		return fmt.Appendf(out, `\x%02x`, first)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}

// speaks reports whether a character does more than appear: controls (C0, DEL, C1), marks and changes of direction,
// line and paragraph separators, and tags, which are invisible.
func speaks(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f:
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r == 0x2028, r == 0x2029:
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r >= 0xe0000 && r <= 0xe007f:
		return true
	}
	return false
}
