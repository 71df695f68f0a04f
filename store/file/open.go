//go:build linux

package file

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/dibs-run/dibs/store"
)

// A dir is the opened directory: where things are, and under which identity.
type dir struct {
	root string      // the directory of the address
	path string      // the namespace's own, below it
	perm os.FileMode // of the files made there
	mode os.FileMode // of the directories
	boot string
	meta *meta
}

// Open opens the directory of c.URL (file:///path) and makes it, with its parents and mode 0700,
// if it is not there. It opens no database: that waits for the first who asks for ticks or history.
// Errors wrap lease.ErrUnavailable, unless it is the address that is wrong.
func Open(ctx context.Context, c store.Config) (*store.Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, fail("open directory", c.String(), err)
	}
	root, err := rootOf(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Session {
		return nil, fmt.Errorf("store %s: lock=session is for databases; the directory's locks are the kernel's already: drop the parameter", c)
	}
	d := &dir{root: root, path: filepath.Join(root, "ns", escape(c.Namespace))}
	if d.boot, err = bootID(); err != nil {
		return nil, fail("read the boot id", "of this machine", err)
	}
	prepared, err := d.prepare(c)
	if err != nil {
		return nil, err
	}
	m, err := d.meta.current()
	if err != nil {
		return nil, err
	}
	leases := leasesOf(d)
	db := newDB(d, leases)
	return &store.Store{
		Kind: "file", URL: c.String(),
		Leases: leases, Ticks: &ticks{db}, History: &histories{db}, Queue: queues{db}, Tasks: desk{db},
		Descriptor: leases.descriptor, Detach: leases.detach,
		Properties: store.Properties{
			Reach: store.Host, InstallationID: d.meta.id, Durable: true,
			MaxTTL:    m.maxTTL(),
			HoldUntil: m.holdUntil(d.boot, instantNow()),
			Schema:    layout,
			Weaker:    weaker,
		},
		Prepared: prepared,
		Close:    db.close,
	}, nil
}

// weaker is what doctor and the pages say; doc.go has the reasons.
var weaker = []string{
	"It excludes on this host only, and only processes that use the same directory.",
	"A process that is stopped (SIGSTOP) while it holds a lease keeps it until it continues or dies, beyond the TTL: nothing overlaps, but others wait.",
	"A loss of power may lose the end of the history of runs without ticks, and the records of released leases; tokens then still rise, unless the wall clock was also set back.",
	"Waiters are not notified: they poll.",
}

func rootOf(u *url.URL) (string, error) {
	if u == nil || (u.Scheme != "file" && u.Scheme != "") {
		return "", fmt.Errorf("store: the directory's address is a path or file:///path, not %q", store.Redact(u))
	}
	if u.Host != "" && u.Host != "localhost" {
		return "", fmt.Errorf("store %s: a directory is on this host: write file:///%s%s with three slashes", store.Redact(u), u.Host, u.Path)
	}
	if u.RawQuery != "" {
		return "", fmt.Errorf("store %s: the directory takes no such parameter", store.Redact(u))
	}
	if u.Path == "" {
		return "", fmt.Errorf("store %s: the path of the directory is missing: write file:///var/lib/dibs", store.Redact(u))
	}
	return filepath.Abs(u.Path)
}

// escape makes a namespace the name of one directory.
func escape(namespace string) string {
	name := url.PathEscape(namespace)
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return name
}

// prepare makes what is missing, checks what is there, and says in lines what it did.
func (d *dir) prepare(c store.Config) (done []string, err error) {
	if _, err := os.Stat(filepath.Join(d.root, "host.json")); c.Expect != "" && os.IsNotExist(err) {
		return nil, fmt.Errorf("store %s: there is no directory of dibs's, and installation id %s is expected: correct the path or expect_store", c, c.Expect)
	}
	made, err := d.makeRoot()
	if err != nil {
		return nil, err
	}
	id, fresh, err := identity(d.root, d.perm)
	if err != nil {
		return nil, err
	}
	if c.Expect != "" && c.Expect != id {
		return nil, fmt.Errorf("store %s: its installation id is %s, and %s is expected: this is another directory, or it was made anew; correct the path or expect_store", c, id, c.Expect)
	}
	if made {
		done = append(done, "made the directory "+d.root)
	}
	if fresh {
		done = append(done, "gave it the installation id "+id+", which is also this host's id")
	}
	d.meta = &meta{path: filepath.Join(d.path, "namespace.json"), id: id}
	lines, err := d.meta.prepare(d, c)
	return append(done, lines...), err
}

// makeRoot makes the directory and refuses one whose locks would not be ours alone.
func (d *dir) makeRoot() (made bool, err error) {
	st, err := os.Stat(d.root)
	if os.IsNotExist(err) {
		if err = os.MkdirAll(d.root, 0o700); err == nil {
			made = true
			st, err = os.Stat(d.root)
		}
	}
	if err != nil {
		return false, fail("open directory", d.root, err)
	}
	if !st.IsDir() {
		return false, fail("open directory", d.root, &fs.PathError{Op: "open", Path: d.root, Err: fmt.Errorf("it is not a directory; name one")})
	}
	if st.Mode().Perm()&0o002 != 0 {
		return false, fail("open directory", d.root, fmt.Errorf("everybody may write to it, and so take or break any lease; name a directory of its own, or chmod o-w"))
	}
	if name, err := checkFS(d.root); err != nil {
		return false, fail("open directory", d.root+" ("+name+")", err)
	}
	d.perm, d.mode = 0o600, 0o700
	if st.Mode().Perm()&0o020 != 0 { // a group that may write to the directory shares what is in it
		d.perm, d.mode = 0o660, 0o770|st.Mode()&os.ModeSetgid
	}
	return made, nil
}

// mkdir makes one directory below the root, as open as the root is.
func (d *dir) mkdir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return widen(path, d.mode)
}

// widen gives what a group shares its mode, where the process's umask withheld it. What belongs
// to somebody else was widened by its maker.
func widen(path string, perm os.FileMode) error {
	if perm&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(path, perm); err != nil && !os.IsPermission(err) {
		return err
	}
	return nil
}
