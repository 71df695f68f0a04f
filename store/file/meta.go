//go:build linux

package file

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// layout is the version of the files and directories. The database has its own.
const layout = 1

// host.json is the identity of the directory (rules H1, L9).
type hostMeta struct {
	Layout int       `json:"layout"`
	ID     string    `json:"installation_id"`
	Made   time.Time `json:"made"`
}

// namespace.json is what grants obey.
type nsMeta struct {
	Layout int   `json:"layout"`
	MaxTTL int64 `json:"max_ttl_us"`
	// Until Hold on the clock of boot Boot nothing is granted (rule L9); Hold + Line is wall time.
	Hold int64  `json:"hold_us,omitempty"`
	Line int64  `json:"line_us,omitempty"`
	Boot string `json:"boot,omitempty"`
}

// holdUntil is when grants resume, zero if they go on. A hold-back never outlasts the boot it was
// made in: neither does any hold that it waits for.
func (m nsMeta) holdUntil(boot string, now instant) time.Time {
	if m.Boot != boot || m.Hold <= now.boot {
		return time.Time{}
	}
	return time.UnixMicro(m.Hold + now.line(m.Line)).UTC()
}

func (m nsMeta) maxTTL() time.Duration { return time.Duration(m.MaxTTL) * time.Microsecond }

// identity reads the directory's id and makes it where there is none.
func identity(root string, perm os.FileMode) (id string, fresh bool, err error) {
	path := filepath.Join(root, "host.json")
	var m hostMeta
	err = readJSON(path, &m)
	if os.IsNotExist(err) {
		m = hostMeta{Layout: layout, ID: lease.NewNonce().String(), Made: time.Now().UTC()}
		if fresh, err = createJSON(path, m, perm); err == nil && !fresh {
			err = readJSON(path, &m)
		}
	}
	if err == nil && m.ID == "" {
		err = errDamaged
	}
	if err != nil {
		return "", false, fail("read", path, err)
	}
	return m.ID, fresh, newer(path, m.Layout)
}

func newer(path string, have int) error {
	if have > layout {
		return fmt.Errorf("%s: the directory has layout %d, this dibs knows up to %d: use the newer dibs here too", path, have, layout)
	}
	return nil
}

// meta is namespace.json, read again whenever the file is another one: grants must obey the
// directory that is there now, not the one that was there at first (rule L9).
type meta struct {
	path string
	id   string

	mu   sync.Mutex
	last unix.Stat_t
	m    nsMeta
}

func (m *meta) current() (nsMeta, error) {
	var st unix.Stat_t
	if err := unix.Stat(m.path, &st); err != nil {
		return nsMeta{}, fail("read", m.path, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if st.Ino == m.last.Ino && st.Dev == m.last.Dev && st.Ctim == m.last.Ctim {
		return m.m, nil
	}
	var n nsMeta
	if err := readJSON(m.path, &n); err != nil {
		return nsMeta{}, fail("read", m.path, err)
	}
	if n.MaxTTL <= 0 {
		return nsMeta{}, fail("read", m.path, errDamaged)
	}
	if err := newer(m.path, n.Layout); err != nil {
		return nsMeta{}, err
	}
	m.m, m.last = n, st
	return n, nil
}

// prepare makes the namespace where it is missing. Without Init an empty directory may be one
// whose files were removed under running work, so that grants wait until that work has lapsed
// (rule L9); unless the kernel knows that nobody on this machine holds such a lock.
func (m *meta) prepare(d *dir, c store.Config) ([]string, error) {
	longest := max(lease.DefaultTTL, c.TTL).Microseconds()
	if _, err := os.Stat(m.path); os.IsNotExist(err) {
		return m.create(d, c, longest)
	}
	if !c.Init {
		return nil, nil
	}
	return m.upgrade(d, longest)
}

func (m *meta) create(d *dir, c store.Config, longest int64) ([]string, error) {
	n := nsMeta{Layout: layout, MaxTTL: longest}
	line := fmt.Sprintf("prepared the namespace %q", c.Namespace)
	if !c.Init && anyHold() {
		now := instantNow()
		n.Boot, n.Hold, n.Line = d.boot, now.boot+longest, now.wall-now.boot
		line += fmt.Sprintf("; its first lease is granted in %s, in case earlier files were removed under the work that is running here (dibs init says that they were not)", n.maxTTL())
	}
	if err := d.mkdir(filepath.Join(d.path, "leases")); err != nil {
		return nil, fail("make", d.path, err)
	}
	// The parents, too, may be new.
	for _, p := range []string{filepath.Dir(d.path), d.path} {
		if err := widen(p, d.mode); err != nil {
			return nil, fail("make", p, err)
		}
	}
	made, err := createJSON(m.path, n, d.perm)
	switch {
	case err != nil:
		return nil, fail("make", m.path, err)
	case made:
		return []string{line}, nil
	case c.Init: // somebody else made it meanwhile, perhaps holding back
		return m.upgrade(d, longest)
	}
	return nil, nil
}

// upgrade raises max_ttl and ends a hold-back, as Init asks.
func (m *meta) upgrade(d *dir, longest int64) (lines []string, err error) {
	err = d.exclusively(context.Background(), func() error {
		n, err := m.current()
		if err != nil {
			return err
		}
		if !n.holdUntil(d.boot, instantNow()).IsZero() {
			lines = append(lines, "ended the waiting for earlier work: the directory is said to be new")
		}
		if n.MaxTTL < longest {
			lines = append(lines, fmt.Sprintf("raised the longest TTL from %s to %s", n.maxTTL(), time.Duration(longest)*time.Microsecond))
		}
		if len(lines) == 0 {
			return nil
		}
		n.MaxTTL, n.Boot, n.Hold, n.Line = max(n.MaxTTL, longest), "", 0, 0
		return replaceJSON(m.path, n, d.perm)
	})
	return lines, fail("change", m.path, err)
}

// exclusively runs f under the namespace's own lock, which serialises what is rare: requests
// to holders, breaks, changes of settings. Grants and renewals never wait for it.
func (d *dir) exclusively(ctx context.Context, f func() error) error {
	path := filepath.Join(d.path, "requests.lock")
	fd, err := open(path, unix.O_RDWR|unix.O_CREAT, d.perm)
	if err != nil {
		return fail("lock", path, err)
	}
	defer closeFD(fd)
	if err := widen(path, d.perm); err != nil {
		return fail("lock", path, err)
	}
	ok, err := patiently(ctx, 2*time.Second, func() (bool, error) { return tryFlock(fd, unix.LOCK_EX) })
	if err == nil && !ok {
		err = cmp.Or(ctx.Err(), errStopped)
	}
	if err != nil {
		return fail("lock", path, err)
	}
	defer unlock(fd)
	return f()
}
