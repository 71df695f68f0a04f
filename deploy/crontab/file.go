package crontab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/internal/disk"
	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/internal/lazy"
)

// maxSize is the largest crontab that is read, in bytes.
const maxSize = 1 << 20

// DefaultFile returns the path of the file that contains only the entries of an app.
func DefaultFile(app string) string { return "/etc/cron.d/dibs-" + app }

// A File is a crontab with users: /etc/crontab, or a file in /etc/cron.d. It is safe for concurrent use.
type File struct {
	layout
	dir, base string
	// write is the writing of a new text, which a test makes fail.
	write disk.Write
}

var _ deploy.Target = (*File)(nil)

// cron skips files of other names in /etc/cron.d.
var fileName = lazy.Regexp(`^[A-Za-z0-9_-]{1,200}$`)

// NewFile returns the target at a path. If its name begins with "dibs-", the file contains only entries of dibs. It
// need not exist, but its directory must.
func NewFile(path string, o Options) (*File, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dir, base := filepath.Split(abs)
	if !fileName().MatchString(base) {
		return nil, fmt.Errorf("%s: cron ignores a file of this name: use letters, digits, - and _, without a dot", path)
	}
	own := strings.HasPrefix(base, "dibs-")
	return &File{layout{Options: o, system: true, own: own}, filepath.Clean(dir), base, disk.Text}, nil
}

// String returns the path.
func (f *File) String() string { return filepath.Join(f.dir, f.base) }

// Lock locks the directory for applies, so those of all its files are one after the other.
func (f *File) Lock(ctx context.Context) (func(), error) { return disk.Lock(ctx, f.dir) }

func (f *File) open() (*beneath.Dir, error) {
	d, err := beneath.Open(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: create the directory, or install cron", err)
	}
	return d, err
}

// Read reads the file. It refuses a file that is not a regular file, or that another user could have put there.
func (f *File) Read(context.Context) (deploy.Image, error) {
	d, err := f.open()
	if err != nil {
		return nil, err
	}
	text, exists, err := f.read(d)
	if err != nil {
		return nil, err
	}
	m, err := newImage(f.layout, f.String(), exists, text)
	if err == nil && exists {
		m.shut, err = f.shut(d)
	}
	return m, err
}

// shut returns why cron does not read the file, by its mode: Debian's wants that only the owner may write, cronie also
// that nobody may execute it.
func (f *File) shut(d *beneath.Dir) (string, error) {
	st, err := d.Stat(f.base)
	if err != nil {
		return "", err
	}
	if mode := st.Mode & 0o7777; mode&0o022 != 0 || f.LineByLine && mode&0o7533 != 0o400 {
		return fmt.Sprintf("cron does not read the file, because its mode is %04o: chmod 644 %s", mode, f), nil
	}
	return "", nil
}

func (f *File) read(d *beneath.Dir) (text string, exists bool, err error) {
	b, err := d.Read(f.base, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return string(b), err == nil, err
}

// Write replaces the file in one step, durably, with the same owner, group and mode (or 0644). A failure leaves the
// old file, and at most a hidden one that cron does not read and the next Write removes.
func (f *File) Write(_ context.Context, from, to deploy.Image) error {
	d, err := f.open()
	if err != nil {
		return err
	}
	was, is := from.Documents()[0], to.Documents()[0]
	text, exists, err := f.read(d)
	if err != nil {
		return err
	}
	if text != was.Text || exists != was.Exists {
		return fmt.Errorf("%w; nothing was written: plan again", deploy.ErrChanged)
	}
	if err := disk.Sweep(d, f.base); err != nil {
		return err
	}
	before := f.changed()
	if !is.Exists {
		if err := d.Remove(f.base); err != nil {
			return err
		}
		f.stir(before)
		return d.Sync()
	}
	if err := disk.Replace(d, f.base, is.Text, was.Exists, f.write); err != nil {
		return err
	}
	f.stir(before)
	return nil
}

// changed is when the file or its directory changed last.
func (f *File) changed() (last time.Time) {
	for _, path := range []string{f.dir, f.String()} {
		if st, err := os.Stat(path); err == nil && st.ModTime().After(last) {
			last = st.ModTime()
		}
	}
	return last
}

// stir has cron see the change: it compares times in whole seconds, and may have looked in this one already. So the
// file and its directory get the next second, or a later one than they had.
func (f *File) stir(before time.Time) {
	next := time.Now().Truncate(time.Second).Add(time.Second)
	if !next.After(before) {
		next = before.Truncate(time.Second).Add(time.Second)
	}
	for _, path := range []string{f.String(), f.dir} {
		_ = os.Chtimes(path, time.Time{}, next) // what was written stands, and cron sees it unless it is as quick
	}
}
