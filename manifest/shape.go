package manifest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dibs-run/dibs/internal/lazy"
)

// A shape says what may stand in one place of a manifest. The description of all of them
// (description.go) is what the validation checks and what the JSON Schema is made of, so that the
// two cannot differ. Only what the fields of the kind concerned say is looked at.
type shape struct {
	kind     kind
	about    string // one line, for editors
	want     string // what a missing one should be
	standard any    // its default: an int64 or a string; nil for none
	// addition marks a field of dibs's own: with a value other than its standard it takes a
	// request out of version 1's limits.
	addition bool

	min, max int64  // of a number, or the items of a list; a list's max of 0 is any number
	hint     string // how to get out of these limits
	words    []string
	rules    []rule // of a string: all must hold

	item  *shape // of a list
	first *shape // further rules for a list's first item

	props   []prop   // of an object with known names, in the order of documents
	choices []choice // of which exactly one must be there
	needs   []need
	// instead says, of names that do not belong here and yet may stand here, what is meant to.
	instead map[string]string

	values   *shape // of an object with free names
	names    rule
	maxNames int // 0 is any number

	free  bool     // any JSON value may stand there; nothing else counts
	forms []*shape // of different kinds, one of which it has; no other field but about and want counts
	wider *shape   // what this one was narrowed from
	// varies marks the shape of a job, which what the job says and inherits may narrow.
	varies bool
}

// A prop is a named field of an object.
type prop struct {
	name     string
	required bool
	shape    *shape
}

// A choice is of exactly one among several fields. The error is the object's; that nothing was
// chosen is the error of the field missing, if that is named.
type choice struct {
	among   []string
	missing string
	want    string
}

// A need is a field that makes sense only beside another one.
type need struct{ field, beside, says string }

// A rule of a string is a pattern which regexp and ECMAScript read alike. In what it says %q
// stands for the string.
type rule struct {
	expr string
	re   func() *regexp.Regexp // compiled when it is first needed: it costs more than the rest
	says string
}

func ruleOf(expr, says string) rule {
	return rule{expr, lazy.Regexp(expr), says}
}

func (r rule) wrong(s string) string {
	if r.re == nil || r.re().MatchString(s) {
		return ""
	}
	return strings.ReplaceAll(r.says, "%q", quote(s))
}

// quote shortens what an error repeats.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return strconv.Quote(s)
}

// prop answers the shape of a named field; nil if there is none.
func (s *shape) prop(name string) *shape {
	for _, p := range s.props {
		if p.name == name {
			return p.shape
		}
	}
	return nil
}

func (s *shape) propNames() (names []string) {
	for _, p := range s.props {
		names = append(names, p.name)
	}
	return names
}

// kinds answers the kinds that a value may have.
func (s *shape) kinds() []kind {
	if s.forms == nil {
		return []kind{s.kind}
	}
	var all []kind
	for _, form := range s.forms {
		all = append(all, form.kind)
	}
	return all
}

// narrowed is the shape with what another one says in the place of what it says itself, field by
// field. The other one's limits lie within its own.
func (s *shape) narrowed(by *shape) *shape {
	n := *s
	n.wider = s
	if s.kind != object || s.props == nil {
		n.min, n.max, n.hint, n.words = by.min, by.max, by.hint, by.words
		return &n
	}
	n.props = slices.Clone(s.props)
	for i, p := range n.props {
		if inner := by.prop(p.name); inner != nil {
			n.props[i].shape = p.shape.narrowed(inner)
		}
	}
	return &n
}

// wrong says what is wrong with a number or a string of the right kind; "" is nothing.
func (s *shape) wrong(n *node) string {
	switch {
	case n.kind != s.kind:
		return fmt.Sprintf("want %s, found %s", s.kind, n.kind)
	case s.kind == number:
		if v, ok := whole(n.text); !ok || v < s.min || v > s.max {
			return fmt.Sprintf("%s: want %s%s%s", n.text, s.limits(), decimal(n.text), s.hintFor(n))
		}
	case s.words != nil && !slices.Contains(s.words, n.text):
		return fmt.Sprintf("%s: want %s%s", quote(n.text), s.nearest(n.text), s.hintFor(n))
	case s.kind == text:
		for _, rule := range s.rules {
			if says := rule.wrong(n.text); says != "" {
				return says
			}
		}
	}
	return ""
}

func (s *shape) limits() string {
	if s.min == s.max {
		return fmt.Sprint(s.min)
	}
	return fmt.Sprintf("a whole number from %d to %d", s.min, s.max)
}

// hintFor is the hint, where following it would help.
func (s *shape) hintFor(n *node) string {
	if s.hint == "" || s.wider.wrong(n) != "" {
		return ""
	}
	return s.hint
}

// nearest is the one word that differs in its case only, or else all of them.
func (s *shape) nearest(wrong string) string {
	for _, w := range s.words {
		if strings.EqualFold(w, wrong) {
			return w
		}
	}
	last := len(s.words) - 1
	return strings.Join(s.words[:last], ", ") + " or " + s.words[last]
}

// usual reports whether a value of the shape is its default.
func (s *shape) usual(n *node) bool {
	if s.kind == number {
		v, _ := whole(n.text)
		return s.standard == v
	}
	return s.standard == n.text
}

// length says what is wrong with the number of a list's items.
func (s *shape) length(n int) string {
	if n >= int(s.min) && (s.max == 0 || n <= int(s.max)) {
		return ""
	}
	want := fmt.Sprintf("%d to %d", s.min, s.max)
	if s.max == 0 {
		want = fmt.Sprintf("at least %d", s.min)
	}
	return fmt.Sprintf("the list has %d items: want %s", n, want)
}

// most is how many of a list's items are looked at.
func (s *shape) most(n int) int { return min(n, cmp.Or(int(s.max), n)) }
