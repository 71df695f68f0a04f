package manifest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A reader walks through a document and collects what is wrong with it, instead of stopping.
type reader struct {
	errs Errors
	// heir is the job for which defaults are being looked at, for errors there.
	heir string
	// names are the paths of jobs by name.
	names map[string]string
	// app is the manifest's, "" if it is wrong.
	app string
}

// A field is a place in an object, whether or not something stands there.
type field struct {
	path string
	at   position
	node *node // nil if the field is missing
}

// fields are those of one object, by name.
type fields struct {
	path string
	at   position
	all  map[string]field
}

const defaultsPath = "defaults"

// fail records an error, once for each place in the defaults however many jobs inherit it.
func (r *reader) fail(f field, format string, args ...any) {
	e := f.at.errorf(f.path, format, args...)
	if strings.HasPrefix(f.path, defaultsPath+"/") {
		if slices.ContainsFunc(r.errs, func(o Error) bool { return o.Path == e.Path }) {
			return
		}
		if r.heir != "" {
			e.Message += fmt.Sprintf(" (inherited by job %q)", r.heir)
		}
	}
	if !slices.Contains(r.errs, e) {
		r.errs = append(r.errs, e)
	}
}

func (f field) present() bool { return f.node != nil }

// is says whether something of that kind stands in the field, and fails if it is something else.
func (r *reader) is(f field, want kind) bool {
	if !f.present() || f.node.kind == want {
		return f.present()
	}
	cure := ""
	switch {
	case f.node.kind == null:
		cure = "; leave the field out for its default"
	case want == text && (f.node.kind == number || f.node.kind == boolean):
		cure = "; put it in quotes"
	case want == number && f.node.kind == text:
		cure = "; write it in digits, without quotes"
	}
	r.fail(f, "want %s, found %s%s", want, f.node.kind, cure)
	return false
}

// object reads an object that may have the fields known and no others.
func (r *reader) object(f field, known ...string) fields {
	o := r.openObject(f)
	for name, m := range o.all {
		if !slices.Contains(known, name) {
			r.fail(m, "unknown field%s", suggest(name, known))
		}
	}
	return o
}

// openObject reads an object with any fields; only those that stand there twice are wrong.
func (r *reader) openObject(f field) fields {
	o := fields{path: f.path, at: f.at, all: map[string]field{}}
	if !r.is(f, object) {
		return o
	}
	for _, m := range f.node.fields {
		inner := field{join(f.path, m.name), m.at, m.value}
		if _, twice := o.all[m.name]; twice {
			r.fail(inner, "the field stands here twice")
			continue
		}
		o.all[m.name] = inner
	}
	return o
}

// get answers a field, or where it would be.
func (o fields) get(name string) field {
	if f, ok := o.all[name]; ok {
		return f
	}
	return field{path: join(o.path, name), at: o.at}
}

// whole is the object as a place, for rules across its fields.
func (o fields) whole() field { return field{path: o.path, at: o.at} }

// inherit answers the field of the first of the objects that has it.
func inherit(name string, from ...fields) field {
	for _, o := range from {
		if f := o.get(name); f.present() {
			return f
		}
	}
	return from[0].get(name)
}

// items reads a list of between lo and hi items; hi 0 is any number.
func (r *reader) items(f field, lo, hi int) []field {
	if !r.is(f, list) {
		return nil
	}
	n := len(f.node.items)
	if n < lo || hi > 0 && n > hi {
		want := fmt.Sprintf("%d to %d", lo, hi)
		if hi == 0 {
			want = fmt.Sprintf("at least %d", lo)
		}
		r.fail(f, "the list has %d items: want %s", n, want)
		return nil
	}
	items := make([]field, n)
	for i, item := range f.node.items {
		items[i] = field{join(f.path, strconv.Itoa(i)), item.at, item}
	}
	return items
}

// text reads a string; missing is "". ok is false if it is missing or something else.
func (r *reader) text(f field) (s string, ok bool) {
	if !r.is(f, text) {
		return "", false
	}
	return f.node.text, true
}

// required is text that must be there.
func (r *reader) required(f field, what string) (s string, ok bool) {
	if !f.present() {
		r.fail(f, "it is missing: want %s", what)
		return "", false
	}
	return r.text(f)
}

// limits are those of a whole number, inclusive; the hint tells how to get out of them.
type limits struct {
	lo, hi int64
	hint   string
}

func (l limits) String() string {
	if l.lo == l.hi {
		return fmt.Sprint(l.lo)
	}
	return fmt.Sprintf("a whole number from %d to %d%s", l.lo, l.hi, l.hint)
}

// integer reads a whole number; missing or wrong is fallback.
func (r *reader) integer(f field, within limits, fallback int64) int64 {
	if !r.is(f, number) {
		return fallback
	}
	n, ok := whole(f.node.text)
	if !ok || n < within.lo || n > within.hi {
		r.fail(f, "%s: want %s", f.node.text, within)
		return fallback
	}
	return n
}

// whole understands that 60.0 and 6e1 are 60.
func whole(digits string) (int64, bool) {
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n, true
	}
	x, err := strconv.ParseFloat(digits, 64)
	return int64(x), err == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53
}

func (r *reader) seconds(f field, within limits, fallback time.Duration) time.Duration {
	return time.Duration(r.integer(f, within, int64(fallback/time.Second))) * time.Second
}

// enum reads one of a few words, spelled exactly.
func enum[T ~string](r *reader, f field, fallback T, parse func(string) (T, error)) T {
	s, ok := r.text(f)
	if !ok {
		return fallback
	}
	v, err := parse(s)
	switch {
	case err != nil:
		r.fail(f, "%v", err)
		return fallback
	case string(v) != s:
		r.fail(f, "%q: want %s", s, v)
		return fallback
	}
	return v
}

// join writes paths as JSON pointers do, without the first slash.
func join(path, name string) string {
	name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	if path == "" {
		return name
	}
	return path + "/" + name
}
