package store

import (
	"errors"
	"fmt"
)

// The errors of Open about a store that is up, and cannot be used as it is.
var (
	// ErrNotPrepared is wrapped if Config.Read is set and nobody has prepared the store or the namespace.
	ErrNotPrepared = errors.New("not prepared")
	// ErrOutdated is wrapped if an older dibs prepared the store and nobody has upgraded it.
	ErrOutdated = errors.New("of an older version")
)

// unfit is one of these errors in the words of a case.
type unfit struct {
	kind error
	text string
}

func (u unfit) Error() string { return u.text }
func (u unfit) Unwrap() error { return u.kind }

// NotPrepared is what Open returns under c.Read where nothing is prepared. It wraps ErrNotPrepared and shows no
// password.
func (c Config) NotPrepared() error {
	return unfit{ErrNotPrepared, fmt.Sprintf("this store is not prepared: run `%s`", c.initCommand())}
}

// Outdated is what Open returns for a store whose layout has an older version than this program's. Neither reading
// upgrades it, nor any other use but `dibs init`, since servers of the older version may be at work. (The directory is
// one host's, and upgraded by its next use that does not only read.) It wraps ErrOutdated and shows no password.
func (c Config) Outdated(have, want int) error {
	return unfit{ErrOutdated, fmt.Sprintf("this store has version %d of dibs's schema, and this dibs needs version %d: run `%s` to upgrade it",
		have, want, c.initCommand())}
}

// initCommand prepares or upgrades the store.
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

// quoted is an address as a shell takes it.
func quoted(address string) string {
	for _, r := range address {
		switch r {
		case '?', '&', '*', ';', ' ', '$', '(', ')', '[', ']':
			return "'" + address + "'"
		}
	}
	return address
}
