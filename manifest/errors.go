package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An Error is one thing that is wrong with a manifest.
type Error struct {
	// Path is the path of the offending field ("jobs/0/policy/timeout_seconds"), or of the object for a rule across
	// fields; empty for the document as a whole.
	Path    string `json:"path"`
	Message string `json:"message"`
	// File is the document's name, if a manifest has several.
	File string `json:"file,omitempty"`
	// Line and Column, from 1, are the position in the document.
	Line   int `json:"-"`
	Column int `json:"-"`

	beyond bool // of a rule that the JSON Schema cannot state
	last   bool // stands after all others
}

func (e Error) Error() string {
	s := e.Message
	if e.Path != "" {
		s = e.Path + ": " + s
	}
	if e.Line > 0 {
		s = fmt.Sprintf("%d:%d: %s", e.Line, e.Column, s)
	}
	switch {
	case e.File != "" && e.Line > 0:
		s = e.File + ":" + s
	case e.File != "":
		s = e.File + ": " + s
	}
	return oneLine(s)
}

// oneLine escapes what could affect a terminal or a log, such as a line end in the name of a field: a manifest may
// come from an application.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if unprintable(c) {
			quoted := strconv.QuoteRune(c)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

func unprintable(c rune) bool { return !strconv.IsPrint(c) }

// Errors are all that is wrong with a manifest, in the document's order.
type Errors []Error

func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

func (es Errors) sort() {
	slices.SortStableFunc(es, func(a, b Error) int {
		switch {
		case a.last != b.last && b.last:
			return -1
		case a.last != b.last:
			return 1
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

func (p position) errorf(path, format string, args ...any) Error {
	return Error{Path: path, Message: fmt.Sprintf(format, args...), Line: p.line, Column: p.column}
}
