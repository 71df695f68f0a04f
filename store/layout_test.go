package store

import (
	"errors"
	"testing"
)

// A program uses a store of a later version as long as that version says that it may, and else says what to do.
// Holds: H4.
func TestALaterLayoutIsUsedIfItSaysSo(t *testing.T) {
	for _, c := range []struct {
		layout Layout
		known  int
		want   error
	}{
		{Layout{}, 1, nil}, // there is none yet
		{Layout{1, 1}, 1, nil},
		{Layout{1, 1}, 3, nil}, // to be upgraded
		{Layout{3, 1}, 1, nil},
		{Layout{3, 2}, 2, nil},
		{Layout{3, 2}, 1, ErrTooNew},
		{Layout{3, 3}, 2, ErrTooNew},
		{Layout{10, 0}, 1, ErrTooNew}, // of a state of the source before v0.1.0
		{Layout{1, 0}, 1, ErrTooNew},
		{Layout{-1, 1}, 1, ErrTooNew}, // somebody wrote that
		{Layout{-1, 0}, 1, ErrTooNew},
	} {
		if err := c.layout.Use(c.known); !errors.Is(err, c.want) {
			t.Errorf("%+v, to a program that knows %d: %v, want %v", c.layout, c.known, err, c.want)
		}
	}
}
