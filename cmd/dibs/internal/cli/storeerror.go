package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// A storeError is an error of opening a store, for people: in one line that names the store once, whether or not the
// store's own words do, and that says what to do.
type storeError struct {
	store string // without its password
	err   error
}

func (e storeError) Unwrap() error { return e.err }

func (e storeError) Error() string {
	text := oneLine(e.err.Error())
	if !strings.Contains(text, e.store) {
		text = "store " + e.store + ": " + text
	}
	switch {
	case strings.Contains(text, "; "), errors.Is(e.err, store.ErrNotPrepared), errors.Is(e.err, store.ErrOutdated), errors.Is(e.err, store.ErrTooNew):
		// It has its own cure.
	case errors.Is(e.err, lease.ErrUnavailable):
		text += "; check that it is up and that the address is right"
	default:
		text += "; correct the store's address, or the problem (dibs doctor says more)"
	}
	return text
}

// oneLine joins the lines of a text; a driver tells of each try in one, though they are alike.
func oneLine(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return strings.ReplaceAll(strings.Join(all, ", "), ":, ", ": ")
}
