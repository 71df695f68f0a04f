package crontab

import (
	"fmt"
	"strings"

	"github.com/dibs-run/dibs/deploy"
)

const (
	markBegin = "# dibs:entry "
	markEnd   = "# dibs:end "
	notice    = " (written by dibs: change the manifest)"
)

// A mark is the comment above a block.
type mark struct {
	id         deploy.ID
	spec, text string
	// eof is the hash of the foreign line above, if that was the last line and had no line end before the block
	// came. It gets its line without an end back when the block goes.
	eof string
}

func (m mark) String() string {
	s := markBegin + m.id.String() + " spec=" + m.spec + " text=" + m.text
	if m.eof != "" {
		s += " eof=" + m.eof
	}
	return s + notice + "\n"
}

func endOf(id deploy.ID) string { return markEnd + id.String() + "\n" }

// isMark reports whether a line begins a block, or ends one.
func isMark(raw, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(strings.TrimLeft(raw, blanks), prefix)
	return strings.TrimRight(rest, blanks+"\r\n"), ok
}

func readMark(rest string) (m mark, err error) {
	rest, _, _ = strings.Cut(rest, "(")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return m, fmt.Errorf("it names no entry")
	}
	if m.id, err = deploy.ParseID(fields[0]); err != nil {
		return m, err
	}
	for _, f := range fields[1:] {
		key, value, _ := strings.Cut(f, "=")
		switch key { // others are of later versions
		case "spec":
			m.spec = value
		case "text":
			m.text = value
		case "eof":
			m.eof = value
		}
	}
	return m, nil
}
