package store

import (
	"errors"
	"fmt"
)

// ErrNotPrepared is wrapped by what Open returns under Config.Read for a store, or a namespace of it, that nobody has
// prepared, or that an older dibs prepared.
var ErrNotPrepared = errors.New("not prepared")

// unprepared is ErrNotPrepared in the words of a case.
type unprepared string

func (u unprepared) Error() string      { return string(u) }
func (unprepared) Is(target error) bool { return target == ErrNotPrepared }

// NotPrepared is what Open returns under c.Read where nothing is prepared. It wraps ErrNotPrepared and shows no password.
func (c Config) NotPrepared() error {
	return unprepared(fmt.Sprintf("this store is not prepared: run `%s`", c.initCommand()))
}

// Outdated is what Open returns for a store whose layout has an older version than this program's: reading never
// upgrades, nor does any other use but `dibs init`, since servers of the older version may be at work. It wraps
// ErrNotPrepared and shows no password.
func (c Config) Outdated(have, want int) error {
	return unprepared(fmt.Sprintf("this store has version %d of dibs's schema, and this dibs needs version %d: run `%s` to upgrade it",
		have, want, c.initCommand()))
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
