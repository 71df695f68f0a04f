//go:build linux

package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/beneath"
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

// namespace.json is what grants must obey.
type nsMeta struct {
	Layout int   `json:"layout"`
	MaxTTL int64 `json:"max_ttl_us"`
	// Until Hold on the clock of boot Boot nothing is granted (rule L9); Hold + Line is wall time.
	Hold int64  `json:"hold_us,omitempty"`
	Line int64  `json:"line_us,omitempty"`
	Boot string `json:"boot,omitempty"`

	origin origin // of the directory, when this was read
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

// identity reads the directory's id, and makes it if there is none.
func identity(root *beneath.Dir) (id string, fresh bool, err error) {
	path := root.Join(hostName)
	var m hostMeta
	err = readJSON(root, hostName, &m)
	if errors.Is(err, fs.ErrNotExist) {
		m = hostMeta{Layout: layout, ID: lease.NewNonce().String(), Made: time.Now().UTC()}
		if fresh, err = createJSON(root, hostName, m); err == nil && !fresh {
			err = readJSON(root, hostName, &m)
		}
	}
	if err == nil && m.ID == "" {
		err = errDamaged
	}
	if err != nil {
		return "", false, fail("read", path, err)
	}
	if err := store.CheckInstallation(m.ID); err != nil {
		return "", false, fmt.Errorf("%s: %w", path, err)
	}
	return m.ID, fresh, newer(path, m.Layout)
}

func newer(path string, have int) error {
	if have > layout {
		return fmt.Errorf("%s: the directory: %w", path, store.Layout{Version: have, Oldest: have}.Use(layout))
	}
	return nil
}

// meta is namespace.json, read again whenever the file is another one: grants must obey the
// directory that is there now, not the one that was there at first (rule L9).
type meta struct {
	dir  *dir
	path string
	id   string

	mu   sync.Mutex
	last unix.Stat_t
	m    nsMeta
}

func (m *meta) current() (nsMeta, error) {
	own, err := m.dir.own()
	if err != nil {
		return nsMeta{}, fail("read", m.path, err)
	}
	st, err := own.Stat(namespaceName)
	if err != nil {
		return nsMeta{}, fail("read", m.path, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if st.Ino == m.last.Ino && st.Dev == m.last.Dev && st.Ctim == m.last.Ctim {
		return m.m, nil
	}
	var n nsMeta
	if err := readJSON(own, namespaceName, &n); err != nil {
		return nsMeta{}, fail("read", m.path, err)
	}
	if n.MaxTTL <= 0 {
		return nsMeta{}, fail("read", m.path, errDamaged)
	}
	if err := newer(m.path, n.Layout); err != nil {
		return nsMeta{}, err
	}
	n.origin = originOf(m.dir.root)
	m.m, m.last = n, st
	return n, nil
}

// prepare makes the namespace if it is missing. Without Init, an empty directory may be one whose files were removed
// under running work. So grants wait until that work has lapsed (rule L9), unless the kernel shows that no process on
// this machine holds such a lock.
func (m *meta) prepare(root *beneath.Dir, c store.Config) ([]string, error) {
	longest := max(lease.DefaultTTL, c.TTL).Microseconds()
	own, err := m.dir.own()
	there := false
	if err == nil {
		there, err = own.Exists(namespaceName)
	}
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fail("open", m.path, err)
	case !there:
		return m.create(root, c, longest)
	case c.Read || !c.Init:
		return nil, nil
	}
	return m.upgrade(m.dir, longest)
}

func (m *meta) create(root *beneath.Dir, c store.Config, longest int64) ([]string, error) {
	n := nsMeta{Layout: layout, MaxTTL: longest}
	line := fmt.Sprintf("prepared the namespace %q", c.Namespace)
	if !c.Init && originOf(m.dir.root).anyHold() {
		now := instantNow()
		n.Boot, n.Hold, n.Line = m.dir.boot, now.boot+longest, now.wall-now.boot
		line += fmt.Sprintf("; its first lease is granted in %s, in case an earlier directory of this path was removed during running work (dibs init declares that it was not)", n.maxTTL())
	}
	p, err := m.dir.placesIn(root, (*beneath.Dir).MakeSub)
	if err != nil {
		return nil, fail("make", m.dir.path, err)
	}
	made, err := createJSON(p.own, namespaceName, n)
	switch {
	case err != nil:
		return nil, fail("make", m.path, err)
	case made:
		return []string{line}, nil
	case c.Init: // somebody else made it meanwhile, perhaps holding back
		return m.upgrade(m.dir, longest)
	}
	return nil, nil
}

// upgrade raises max_ttl and ends a hold-back, as Init asks.
func (m *meta) upgrade(d *dir, longest int64) (lines []string, err error) {
	err = d.exclusively(context.Background(), patience, func() error {
		n, err := m.current()
		if err != nil {
			return err
		}
		if !n.holdUntil(d.boot, instantNow()).IsZero() {
			lines = append(lines, "ended the wait for earlier work: the directory is declared new")
		}
		if n.MaxTTL < longest {
			lines = append(lines, fmt.Sprintf("raised the longest TTL from %s to %s", n.maxTTL(), time.Duration(longest)*time.Microsecond))
		}
		if len(lines) == 0 {
			return nil
		}
		n.MaxTTL, n.Boot, n.Hold, n.Line = max(n.MaxTTL, longest), "", 0, 0
		own, err := d.own()
		if err != nil {
			return err
		}
		return replaceJSON(own, namespaceName, n, true)
	})
	return lines, fail("change", m.path, err)
}

// exclusively runs f under the namespace's own lock, which serialises rare things: requests to holders, breaks,
// changes of settings. It waits for others for so long at most: not at all for a grant.
func (d *dir) exclusively(ctx context.Context, most time.Duration, f func() error) error {
	path := filepath.Join(d.path, lockName)
	own, err := d.own()
	if err != nil {
		return fail("lock", path, err)
	}
	fd, err := own.Open(lockName, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return fail("lock", path, err)
	}
	defer closeFD(fd)
	ok, err := patiently(ctx, most, func() (bool, error) { return tryFlock(fd, unix.LOCK_EX) })
	if err == nil && !ok {
		err = cmp.Or(ctx.Err(), errStopped)
	}
	if err != nil {
		return fail("lock", path, err)
	}
	defer unlock(fd)
	return f()
}
