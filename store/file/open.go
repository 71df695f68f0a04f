//go:build linux

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/store"
)

// A dir is the opened directory: where things are, and under which identity.
type dir struct {
	root string // the directory of the address
	name string // of the namespace's own directory
	path string // the same, for messages
	boot string
	meta *meta
	held held
}

// OpenConfig opens the directory of c.URL (file:///path) and makes it, with its parents and mode 0700, if it is
// missing, unless c.Read. It opens no database: the first call for ticks, history or tasks does, and makes the
// database if a prepared namespace has none yet. Under c.Read an older database is not upgraded; calls for it fail
// with an error that wraps store.ErrOutdated. Errors wrap lease.ErrUnavailable, except for a wrong address.
func OpenConfig(ctx context.Context, c store.Config) (*store.Store, error) {
	return openKnowing(ctx, c, Migrations)
}

// openKnowing is OpenConfig of a program that knows these migrations.
func openKnowing(ctx context.Context, c store.Config, migrations fs.FS) (*store.Store, error) {
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
	d := &dir{root: root, name: escape(c.Namespace)}
	d.path = filepath.Join(root, nsName, d.name)
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
	db := newDB(d, leases, c, migrations)
	return &store.Store{
		Kind: "file", URL: c.String(),
		Leases: leases, Ticks: &ticks{db}, History: &histories{db}, Queue: queues{db}, Tasks: admin{db}, Fleet: processes{db},
		Descriptor: leases.descriptor, Detach: leases.detach, Unreadable: leases.unreadable.list,
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

// weaker is what doctor and the docs say; doc.go has the reasons.
var weaker = []string{
	"It protects this host only, and only processes that use the same directory.",
	"A stopped process (SIGSTOP) keeps its lease until it continues or dies, beyond the TTL: nothing overlaps, but others wait.",
	"A power loss may lose the end of the history of runs without ticks, and the records of released leases; tokens still rise then, unless the wall clock was also set back.",
	"Waiting processes are not notified: they poll.",
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
	root, made, err := d.openRoot(c)
	if err != nil {
		return nil, err
	}
	if c.Read {
		if err := d.found(root, c); err != nil {
			return nil, err
		}
	}
	id, fresh, err := identity(root)
	if err != nil {
		return nil, err
	}
	if c.Expect != "" && c.Expect != id {
		return nil, fmt.Errorf("store %s: its installation id is %s, and %s is expected: this is another directory, or it was created again; correct the path or expect_store", c, id, c.Expect)
	}
	if made {
		done = append(done, "created the directory "+d.root)
	}
	if fresh {
		done = append(done, "gave it the installation id "+id+", which is also this host's id")
	}
	d.meta = &meta{dir: d, path: filepath.Join(d.path, namespaceName), id: id}
	lines, err := d.meta.prepare(root, c)
	return append(done, lines...), err
}

// found says whether a directory, and c's namespace in it, are prepared.
func (d *dir) found(root *beneath.Dir, c store.Config) error {
	there, err := root.Exists(hostName)
	if err == nil && there {
		var p *places
		if p, err = d.placesIn(root, (*beneath.Dir).Sub); err == nil {
			there, err = p.own.Exists(namespaceName)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !there:
		return c.NotPrepared()
	case err != nil:
		return fail("open", d.path, err)
	}
	return nil
}

// openRoot opens the directory, or makes it if that is meant, and refuses one whose locks would not be this kernel's
// alone.
func (d *dir) openRoot(c store.Config) (root *beneath.Dir, made bool, err error) {
	if c.Expect == "" && !c.Read {
		root, made, err = beneath.Make(d.root)
	} else if root, err = beneath.Open(d.root); err == nil {
		var there bool
		if there, err = root.Exists(hostName); err == nil && !there {
			err = fs.ErrNotExist
		}
	}
	switch {
	case !errors.Is(err, fs.ErrNotExist):
	case c.Expect == "" && c.Read:
		return nil, false, c.NotPrepared()
	case c.Expect != "":
		return nil, false, fmt.Errorf("store %s: there is no dibs directory, and installation id %s is expected: correct the path or expect_store", c, c.Expect)
	}
	if err != nil {
		return nil, false, fail("open directory", d.root, err)
	}
	if name, err := checkFS(d.root); err != nil {
		return nil, false, fail("open directory", d.root+" ("+name+")", err)
	}
	return root, made, nil
}
