package store

import (
	"errors"
	"fmt"
)

// Errors of Open for a store that is up, but cannot be used as it is.
var (
	// ErrNotPrepared is wrapped if Config.Read is set and nobody has prepared the store or the namespace.
	ErrNotPrepared = errors.New("not prepared")
	// ErrOutdated is wrapped if an older dibs prepared the store and nobody has upgraded it.
	ErrOutdated = errors.New("of an older version")
	// ErrTooNew is wrapped if a newer dibs upgraded the store to a version that this program must not use.
	ErrTooNew = errors.New("of a newer version")
)

// unfit is one of these errors in the words of a case.
type unfit struct {
	kind error
	text string
}

func (u unfit) Error() string { return u.text }
func (u unfit) Unwrap() error { return u.kind }

// NotPrepared returns the error of Open with c.Read if nothing is prepared. It wraps ErrNotPrepared and shows no
// password.
func (c Config) NotPrepared() error {
	return unfit{ErrNotPrepared, fmt.Sprintf("this store is not prepared: run `%s`", c.initCommand())}
}

// Outdated returns the error of Open for a store whose layout is older than this program's. Only `dibs init`
// upgrades it; reading and other uses do not, since servers of the older version may be running. (The directory
// belongs to one host, and is upgraded by its next use that does not only read.) The error wraps ErrOutdated and
// shows no password.
func (c Config) Outdated(have, want int) error {
	return unfit{ErrOutdated, fmt.Sprintf("this store has version %d of dibs's schema, and this dibs needs version %d: run `%s` to upgrade it",
		have, want, c.initCommand())}
}

// A Layout is what a store records of its schema or layout: its version, and the oldest version whose programs may
// still use it. A migration that only adds leaves Oldest as it is: then programs of older versions go on beside newer
// ones, while a fleet is upgraded server by server.
type Layout struct{ Version, Oldest int }

// Use says whether a program that knows the versions up to known may use a store of this layout: nil, or an error
// that wraps ErrTooNew and shows no password. An older layout is the caller's to refuse or upgrade (Outdated).
func (l Layout) Use(known int) error {
	switch {
	case l.Version < 0:
		return unfit{ErrTooNew, fmt.Sprintf("this store has version %d of dibs's schema, which no dibs has made: restore it from a backup", l.Version)}
	case l.Version <= known && l.Oldest > 0, l.Version == 0:
		return nil
	case l.Oldest == 0:
		return unfit{ErrTooNew, "a version of dibs before v0.1.0 made this store, and nothing upgrades it: delete what dibs has in it, and run `dibs init`"}
	case l.Oldest > known:
		return unfit{ErrTooNew, fmt.Sprintf("this store has version %d of dibs's schema, which needs a dibs that knows version %d, and this one knows version %d: upgrade dibs on this host",
			l.Version, l.Oldest, known)}
	}
	return nil
}

// initCommand returns the command that prepares or upgrades the store.
func (c Config) initCommand() string {
	if c.URL == nil { // a client of the caller's
		return "dibs init --store URL"
	}
	u := *c.URL
	if q := u.Query(); c.Namespace != "" && c.Namespace != DefaultNamespace {
		q.Set("namespace", c.Namespace)
		u.RawQuery = q.Encode()
	}
	return "dibs init --store " + quoted(Redact(&u))
}

// quoted returns an address quoted for a shell.
func quoted(address string) string {
	for _, r := range address {
		switch r {
		case '?', '&', '*', ';', ' ', '$', '(', ')', '[', ']':
			return "'" + address + "'"
		}
	}
	return address
}
