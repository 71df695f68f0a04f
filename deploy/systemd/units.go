package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/internal/disk"
	"github.com/dibs-run/dibs/internal/beneath"
)

// maxUnit is the largest unit that is read, in bytes.
const maxUnit = 64 << 10

// SystemDir is where an administrator's units are.
const SystemDir = "/etc/systemd/system"

// A Manager is a systemd that is notified of changes.
type Manager interface {
	// Do is a call of systemctl(1), such as daemon-reload.
	Do(ctx context.Context, args ...string) error
}

// Options say whose units they are. The zero value is the system's.
type Options struct {
	// Dir is the directory. Default: SystemDir or, with User, that of the user who runs this process.
	Dir string
	// User states that they are one user's units.
	User bool
	// Manager is notified. Default: the running one, if one runs and Dir is not set; otherwise none.
	Manager Manager
}

// Units is a directory of units. It is safe for concurrent use.
type Units struct {
	dir     string
	user    bool
	manager Manager // nil: nobody is told
	write   disk.Write
}

var _ deploy.Target = (*Units)(nil)

// New returns the target of a directory, which it creates if it is a user's own.
func New(o Options) (*Units, error) {
	u := &Units{dir: o.Dir, user: o.User, manager: o.Manager, write: disk.Text}
	switch {
	case u.dir != "":
	case o.User:
		config, err := os.UserConfigDir()
		if err != nil {
			return nil, err
		}
		u.dir = filepath.Join(config, "systemd", "user")
		if err := os.MkdirAll(u.dir, 0o755); err != nil {
			return nil, err
		}
	default:
		u.dir = SystemDir
	}
	if !filepath.IsAbs(u.dir) {
		return nil, fmt.Errorf("%s: want an absolute path", u.dir)
	}
	if u.dir = filepath.Clean(u.dir); o.Dir == "" && o.Manager == nil && runs(o.User) {
		u.manager = systemctl{o.User}
	}
	return u, nil
}

// runs reports whether there is a systemd to be told, as sd_booted(3) does.
func runs(user bool) bool {
	dir := "/run/systemd/system"
	if user {
		dir = filepath.Join(runtimeDir(), "systemd")
	}
	st, err := os.Stat(dir)
	return err == nil && st.IsDir()
}

type systemctl struct{ user bool }

func (s systemctl) Do(ctx context.Context, args ...string) error {
	if s.user {
		args = append([]string{"--user"}, args...)
	}
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	if s.user {
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+runtimeDir()) // it finds the manager there
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// String returns the directory.
func (u *Units) String() string { return u.dir }

// Lock locks the directory for applies.
func (u *Units) Lock(ctx context.Context) (func(), error) { return disk.Lock(ctx, u.dir) }

// Read reads the units of dibs and lists the other timers.
func (u *Units) Read(context.Context) (deploy.Image, error) {
	d, err := u.open()
	if err != nil {
		return nil, err
	}
	return u.read(d)
}

func (u *Units) open() (*beneath.Dir, error) {
	d, err := beneath.Open(u.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: create the directory, or install systemd", err)
	}
	return d, err
}

func (u *Units) read(d *beneath.Dir) (*image, error) {
	m := &image{of: u, files: map[string]string{}, enabled: map[string]bool{}}
	names, err := d.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		unit := strings.HasSuffix(name, timerEnd) || strings.HasSuffix(name, serviceEnd)
		switch ours := strings.HasPrefix(name, "dibs-"); {
		case name == pending:
			m.untold = true
		case ours && unit:
			text, err := d.Read(name, maxUnit)
			if err != nil && !errors.Is(err, beneath.ErrRefused) { // that is a link, say: not one that dibs wrote
				return nil, err
			}
			if _, _, _, _, marked := readMark(string(text)); marked && err == nil {
				m.files[name] = string(text)
				continue
			}
			fallthrough
		case strings.HasSuffix(name, timerEnd):
			m.others = append(m.others, name)
		}
	}
	links, err := filepath.Glob(filepath.Join(u.dir, wants, "dibs-*"+timerEnd))
	if err != nil {
		return nil, err
	}
	for _, link := range links {
		name := filepath.Base(link)
		to, err := os.Readlink(link)
		_, ours := m.files[name]
		if err == nil && (ours || to == "../"+name && !slices.Contains(m.others, name)) { // else it is somebody else's
			m.enabled[name] = true
		}
	}
	slices.Sort(m.others)
	m.beside = u.dropins()
	return m, nil
}

// Write writes the units that differ, services before timers, and notifies systemd. After an error the directory has
// some of both, and the next Apply continues.
func (u *Units) Write(ctx context.Context, from, to deploy.Image) error {
	was, is := from.(*image), to.(*image)
	d, err := u.open()
	if err != nil {
		return err
	}
	now, err := u.read(d)
	if err != nil {
		return err
	}
	if !slices.Equal(now.Documents(), was.Documents()) {
		return fmt.Errorf("%w; nothing was written: plan again", deploy.ErrChanged)
	}
	if err := disk.Replace(d, pending, "systemd is to be told\n", now.untold, u.write); err != nil {
		return err
	}
	gone, changed := u.difference(was, is)
	if err := u.tell(ctx, "stop", gone); err != nil {
		return err
	}
	if err := u.remove(d, was, is); err != nil {
		return err
	}
	if err := u.put(d, was, is); err != nil {
		return err
	}
	if err := u.reload(ctx, changed); err != nil {
		return fmt.Errorf("the units are written, but systemd was not reloaded: apply again: %w", err)
	}
	return d.Remove(pending)
}

// difference lists the timers that go, and those that systemd has to start anew. If it was not told of an earlier
// write, that may be any.
func (u *Units) difference(was, is *image) (gone, changed []string) {
	for _, name := range slices.Sorted(maps.Keys(was.enabled)) {
		if !is.enabled[name] {
			gone = append(gone, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is.enabled)) {
		if was.untold || !was.enabled[name] || was.files[name] != is.files[name] {
			changed = append(changed, name)
		}
	}
	return gone, changed
}

// remove removes what goes: the timers first, so that what has one is whole.
func (u *Units) remove(d *beneath.Dir, was, is *image) error {
	for _, end := range []string{timerEnd, serviceEnd} {
		for name := range was.files {
			if _, stays := is.files[name]; !stays && strings.HasSuffix(name, end) {
				if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
	}
	for name := range was.enabled {
		if !is.enabled[name] {
			if err := os.Remove(filepath.Join(u.dir, wants, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return d.Sync()
}

// put writes what is new: the timers last, so that what has one is whole.
func (u *Units) put(d *beneath.Dir, was, is *image) error {
	if err := u.putFiles(d, was, is, serviceEnd); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(is.enabled)) {
		if was.enabled[name] {
			continue
		}
		if err := os.MkdirAll(filepath.Join(u.dir, wants), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("../"+name, filepath.Join(u.dir, wants, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return u.putFiles(d, was, is, timerEnd)
}

func (u *Units) putFiles(d *beneath.Dir, was, is *image, end string) error {
	for _, name := range slices.Sorted(maps.Keys(is.files)) {
		old, there := was.files[name]
		if !strings.HasSuffix(name, end) || there && old == is.files[name] {
			continue
		}
		if err := disk.Sweep(d, name); err != nil {
			return err
		}
		if err := disk.Replace(d, name, is.files[name], there, u.write); err != nil {
			return err
		}
	}
	return nil
}

func (u *Units) tell(ctx context.Context, verb string, units []string) error {
	if u.manager == nil || len(units) == 0 {
		return nil
	}
	return u.manager.Do(ctx, append([]string{verb}, units...)...)
}

func (u *Units) reload(ctx context.Context, timers []string) error {
	if u.manager == nil {
		return nil
	}
	if err := u.manager.Do(ctx, "daemon-reload"); err != nil {
		return err
	}
	return u.tell(ctx, "restart", timers)
}
