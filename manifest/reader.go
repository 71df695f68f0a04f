package manifest

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A reader walks through a document and collects what is wrong with it, instead of stopping.
type reader struct {
	errs Errors
	seen map[Error]bool
	// bad are the paths of what was refused; it reads as if it were missing.
	bad map[string]bool
	// failed are the paths in the defaults of which an error has been told.
	failed map[string]bool
	// heir is the job for which defaults are being looked at, for errors there.
	heir string
	// names are the paths of jobs by name.
	names map[string]string
	// places are where the app and the names of jobs stand, by path.
	places map[string]position
	// app is the manifest's, as far as it can be read.
	app string
	// inherits is whether the defaults have what may widen what jobs may say, and loose whether the
	// limits of the job that is looked at are beyond the JSON Schema: it inherits, or an expression is
	// not plain.
	inherits, loose bool
	defaults        defaults
}

func newReader() *reader {
	return &reader{seen: map[Error]bool{}, bad: map[string]bool{}, failed: map[string]bool{}, names: map[string]string{}, places: map[string]position{}}
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

func inherited(path string) bool { return strings.HasPrefix(path, defaultsPath+"/") }

func (f field) present() bool { return f.node != nil }

// fieldsOf reads an object; anything else has no fields. Of a field that stands there twice the
// first one counts.
func fieldsOf(f field) fields {
	o := fields{path: f.path, at: f.at, all: map[string]field{}}
	if !f.present() || f.node.kind != object {
		return o
	}
	for _, m := range f.node.fields {
		if _, twice := o.all[m.name]; !twice && m.unread == "" {
			o.all[m.name] = field{join(f.path, m.name), m.at, m.value}
		}
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

// object reads an object in a field.
func (o fields) object(name string) fields { return fieldsOf(o.get(name)) }

// whole is the object as a place, for rules across its fields.
func (o fields) whole() field { return field{path: o.path, at: o.at} }

// count is how many of the fields are there.
func (o fields) count(names []string) (n int) {
	for _, name := range names {
		if o.get(name).present() {
			n++
		}
	}
	return n
}

// inherit answers the field of the first of the objects that has it.
func inherit(name string, from ...fields) field {
	for _, o := range from {
		if f := o.get(name); f.present() {
			return f
		}
	}
	return from[0].get(name)
}

// is reports whether a value of that kind, which was not refused, stands in the field.
func (r *reader) is(f field, want kind) bool {
	return f.present() && f.node.kind == want && !r.bad[f.path]
}

// text reads a string; missing is "". ok is false if it is missing or was refused.
func (r *reader) text(f field) (s string, ok bool) {
	if !r.is(f, text) {
		return "", false
	}
	return f.node.text, true
}

// integer reads a whole number; missing or refused is fallback.
func (r *reader) integer(f field, fallback int64) int64 {
	if r.is(f, number) {
		if n, ok := whole(f.node.text); ok {
			return n
		}
	}
	return fallback
}

func (r *reader) seconds(f field, fallback time.Duration) time.Duration {
	return time.Duration(r.integer(f, int64(fallback/time.Second))) * time.Second
}

// word reads one of a few; missing or refused is fallback.
func word[T ~string](r *reader, f field, fallback T) T {
	if s, ok := r.text(f); ok {
		return T(s)
	}
	return fallback
}

// plain is how JSON writes numbers. YAML knows more ways, which different readers take for
// different numbers (012, 1_000, 0x1f), or for strings.
var plain = pattern(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?$`)

// whole understands that 60.0 and 6e1 are 60.
func whole(digits string) (int64, bool) {
	if len(digits) > 64 || !plain().MatchString(digits) {
		return 0, false
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n, true
	}
	x, ok := new(big.Rat).SetString(digits)
	if !ok || !x.IsInt() || !x.Num().IsInt64() {
		return 0, false
	}
	return x.Num().Int64(), true
}

// decimal says how to write a number that is written otherwise.
func decimal(digits string) string {
	if plain().MatchString(digits) {
		return ""
	}
	return ", in plain decimal digits"
}

func pattern(expr string) func() *regexp.Regexp { return ruleOf(expr, "").re }

// join writes paths as JSON pointers do, without the first slash.
func join(path, name string) string {
	if strings.ContainsAny(name, "~/") {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	}
	if path == "" {
		return name
	}
	return path + "/" + name
}
