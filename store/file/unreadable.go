//go:build linux

package file

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/lease"
)

// unreadable is what readers stepped over, by its place: one record that cannot be read must not hide all others.
type unreadable struct {
	mu  sync.Mutex
	all map[string]string
}

// mostUnreadable bounds what is remembered.
const mostUnreadable = 100

// stepOver notes a record that cannot be read. It returns err if the reader itself is at fault and must not go on.
func (u *unreadable) stepOver(at string, err error) error {
	for _, own := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, context.Canceled, context.DeadlineExceeded, lease.ErrUnavailable} {
		if errors.Is(err, own) {
			return err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[string]string{}
	}
	if len(u.all) < mostUnreadable {
		u.all[at] = fmt.Sprintf("%s: %v", at, err)
	}
	return nil
}

// list fulfils store.Store.Unreadable.
func (u *unreadable) list() (all []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, text := range u.all {
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}
