package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// check compares a value, and everything in it, with its shape, and refuses what does not fit. Rules across several
// places of the document are checked where the jobs are read.
func (r *reader) check(f field, s *shape) {
	if s.varies {
		s = r.variant(f)
	}
	if s.free {
		r.checkFree(f)
		return
	}
	if !f.present() || !r.fits(f, s) {
		return
	}
	if i := slices.IndexFunc(s.forms, func(form *shape) bool { return form.kind == f.node.kind }); i >= 0 {
		s = s.forms[i]
	}
	switch {
	case s.kind == list:
		r.checkList(f, s)
	case s.kind == object && s.values != nil:
		r.checkMap(f, s)
	case s.kind == object:
		r.checkObject(f, s)
	default:
		if says := s.wrong(f.node); says != "" {
			beyond := r.loose && s.hintFor(f.node) != ""
			r.record(f, beyond, says)
		}
	}
}

// fits reports whether a value is of a right kind, and refuses it if it is not.
func (r *reader) fits(f field, s *shape) bool {
	kinds, found := s.kinds(), f.node.kind
	if slices.Contains(kinds, found) {
		return true
	}
	want, cure := s.want, ""
	if s.forms == nil {
		want = kinds[0].String()
	}
	switch {
	case f.node.unread != "":
		r.refuse(f, "%s", f.node.unread)
		return false
	case found == null:
		cure = "; leave the field out for its default"
	case s.forms != nil && found == text:
		cure = ", which could mean either"
	case kinds[0] == text && (found == number || found == boolean):
		cure = "; put it in quotes"
	case kinds[0] == number && found == text:
		cure = "; write it in digits, without quotes"
	}
	r.refuse(f, "want %s, found %s%s", want, found, cure)
	return false
}

// checkFree refuses what JSON has no value for, or some store could not keep.
func (r *reader) checkFree(f field) {
	if !f.present() {
		return
	}
	switch n := f.node; {
	case n.unread != "":
		r.refuse(f, "%s", n.unread)
	case n.kind == number && !plain().MatchString(n.text):
		r.fail(f, "%s: want a number%s", quote(n.text), decimal(n.text))
	case n.kind == text && strings.Contains(n.text, "\x00"):
		r.fail(f, "some stores cannot keep the character U+0000: remove it")
	case n.kind == list:
		for _, item := range items(f) {
			r.checkFree(item)
		}
	case n.kind == object:
		for _, m := range r.members(f) {
			if strings.Contains(m.name, "\x00") {
				r.fail(m.field, "some stores cannot keep the character U+0000 in a name: remove it")
			}
			r.checkFree(m.field)
		}
	}
}

func (r *reader) checkList(f field, s *shape) {
	if says := s.length(len(f.node.items)); says != "" {
		r.refuse(f, "%s", says)
	}
	for i, item := range items(f)[:s.most(len(f.node.items))] {
		r.check(item, s.item)
		if i == 0 && s.first != nil && item.node.kind == s.first.kind && !r.bad[item.path] {
			r.check(item, s.first)
		}
	}
}

func (r *reader) checkMap(f field, s *shape) {
	all := r.members(f)
	if s.maxNames > 0 && len(all) > s.maxNames {
		r.refuse(f, "it has %d entries: want at most %d", len(all), s.maxNames)
		return
	}
	for _, m := range all {
		if says := s.names.wrong(m.name); says != "" {
			r.refuse(m.field, "%s", says)
			continue
		}
		r.check(m.field, s.values)
	}
}

func (r *reader) checkObject(f field, s *shape) {
	all := r.members(f)
	if i := slices.IndexFunc(all, func(m named) bool { return s.instead[m.name] != "" }); i >= 0 {
		r.refuse(f, "it has no field %s: %s", all[i].name, s.instead[all[i].name]) // and is not what it seems to be
		return
	}
	for _, m := range all {
		if len(r.errs) > maxErrors {
			break
		}
		inner := s.prop(m.name)
		if inner == nil {
			r.refuse(m.field, "unknown field%s", suggest(m.name, s.propNames()))
			continue
		}
		r.check(m.field, inner)
	}
	o := fieldsOf(f)
	if slices.ContainsFunc(f.node.fields, func(m member) bool { return m.unread != "" }) {
		return // what is missing may stand under a name that was not read
	}
	for _, p := range s.props {
		if p.required && !o.get(p.name).present() {
			r.refuse(o.get(p.name), "it is missing: want %s", p.shape.want)
		}
	}
	for _, c := range s.choices {
		switch n := o.count(c.among); {
		case n == 0 && c.missing != "":
			r.refuse(o.get(c.missing), "it is missing: want %s", s.prop(c.missing).want)
		case n != 1:
			r.refuseWhole(o, "want "+c.want)
		}
	}
	for _, n := range s.needs {
		if o.get(n.field).present() && !o.get(n.beside).present() {
			r.refuse(o.get(n.field), "%s", n.says)
		}
	}
}

// A named field is a member of an object.
type named struct {
	name string
	field
}

// members lists an object's, and refuses those that stand there twice or whose names are not
// strings.
func (r *reader) members(f field) (all []named) {
	seen := map[string]bool{}
	for _, m := range f.node.fields {
		inner := field{join(f.path, m.name), m.at, m.value}
		switch {
		case m.unread != "":
			r.refuse(inner, "%s", m.unread)
		case seen[m.name]:
			r.fail(inner, "the field is here twice")
		default:
			all = append(all, named{m.name, inner})
		}
		seen[m.name] = true
	}
	return all
}

// items lists those of a list.
func items(f field) []field {
	if !f.present() || f.node.kind != list {
		return nil
	}
	all := make([]field, len(f.node.items))
	for i, item := range f.node.items {
		all[i] = field{join(f.path, strconv.Itoa(i)), item.at, item}
	}
	return all
}

// maxErrors bounds what is told at once.
const maxErrors = 1000

// refuse records an error that the JSON Schema knows of as well. What it refuses is not read.
func (r *reader) refuse(f field, format string, args ...any) {
	r.record(f, false, fmt.Sprintf(format, args...))
}

func (r *reader) refuseWhole(o fields, says string) {
	r.add(Error{Path: o.path, Message: says, Line: o.at.line, Column: o.at.column})
}

func (r *reader) record(f field, beyond bool, says string) {
	r.bad[f.path] = true
	e := f.at.errorf(f.path, "%s", says)
	e.beyond = beyond
	r.add(e)
}

// fail records an error that no JSON Schema can know of: a rule across fields, or one that is
// too much for a pattern. For each place in the defaults there is one, however many jobs inherit it.
func (r *reader) fail(f field, format string, args ...any) {
	e := f.at.errorf(f.path, format, args...)
	e.beyond = true
	if inherited(f.path) {
		if r.failed[f.path] || r.bad[f.path] {
			return
		}
		r.failed[f.path] = true
		if r.heir != "" {
			e.Message += fmt.Sprintf(" (inherited by job %q)", r.heir)
		}
	}
	r.add(e)
}

func (r *reader) add(e Error) {
	switch {
	case r.seen[e]:
		return
	case len(r.errs) >= maxErrors:
		e = Error{Message: fmt.Sprintf("there are more than these %d errors", maxErrors), last: true}
		if r.seen[e] {
			return
		}
	}
	r.seen[e] = true
	r.errs = append(r.errs, e)
}
