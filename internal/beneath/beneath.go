// Package beneath opens what is in a directory that others may write to, such as one that a group shares. Another
// user with write access can plant a symbolic link, a hard link, a FIFO or a file of another owner under any name,
// and change it at any moment. So nothing is opened by its path:
//
//   - A directory is held open, and everything is named relative to it, by one name without slashes.
//   - No link is followed and no open waits. What was opened is checked before it is used: it must be a regular file
//     with one name, of an owner and a group that may have made it there.
//   - A file is made with O_EXCL. Its mode and group are set on the open file, and only by the process that made it.
//
// A directory's owner decides who shares it: root, or the user who runs dibs. If its mode lets the group write, the
// group shares it. See docs/how-to/operations.md.
package beneath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrRefused is wrapped if a file or directory is not as dibs would have made it.
var ErrRefused = errors.New("refused")

// A Dir is a directory that is held open. It is safe for concurrent use. It is closed when it is no longer referred
// to.
type Dir struct {
	f    *os.File
	path string
	st   unix.Stat_t
}

// Open opens a directory by its path. Symbolic links on the way are followed only if root or this user made them.
// Open refuses a directory of another owner (unless this user is not root and the directory is shared with a group),
// and one that everybody may write to.
func Open(path string) (*Dir, error) {
	d, _, err := enter(path, false)
	return d, err
}

// Make is Open, and makes the directory and its parents with mode 0700 where there is none.
func Make(path string) (d *Dir, made bool, err error) { return enter(path, true) }

// Look is Open for a caller to whom any directory will do. Symbolic links on the way are those of Open, and its files
// are checked as ever.
func Look(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	fd, _, err := walk(path, false)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return hold(fd, path)
}

// Private says whether nobody else can put anything into the directory: it belongs to root or this user, and no
// other may write to it.
func (d *Dir) Private() bool { return ours(d.st.Uid) && d.st.Mode&0o022 == 0 }

// Create opens a file for writing, empty. In a directory that is not private, it refuses (ErrRefused) everything but
// a regular file of one name: another user may have put a link or a pipe there.
func (d *Dir) Create(name string) (*os.File, error) {
	flags := unix.O_WRONLY | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NOCTTY
	if !d.Private() {
		flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK
	}
	fd := -1
	err := d.with("open", name, func(at int) (err error) {
		fd, err = unix.Openat(at, name, flags, 0o644)
		return err
	})
	if !d.Private() && (errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO)) {
		err = refuse(d.Join(name), "others may write to its directory, and it is a link or a pipe; name a file in a directory of your own")
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.Join(name))
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && !d.Private() && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1) {
		err = refuse(d.Join(name), "others may write to its directory, and it is no plain file; name one in a directory of your own")
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func enter(path string, make bool) (*Dir, bool, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, false, err
	}
	fd, made, err := walk(path, make)
	if err != nil {
		return nil, false, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	d, err := hold(fd, path)
	if err == nil {
		err = d.checkTop()
	}
	return d, made, err
}

// hold takes over an open directory.
func hold(fd int, path string) (*Dir, error) {
	d := &Dir{f: os.NewFile(uintptr(fd), path), path: path}
	if err := unix.Fstat(fd, &d.st); err != nil {
		return d, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return d, nil
}

func refuse(path, format string, a ...any) error {
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: "+format, append([]any{ErrRefused}, a...)...)}
}

// ours says whether an owner is root or this user.
func ours(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

func (d *Dir) checkTop() error {
	switch {
	case d.st.Mode&0o002 != 0:
		return refuse(d.path, "everybody may write to it, and so replace it; name another directory, or chmod o-w")
	case ours(d.st.Uid):
		return nil
	case os.Geteuid() == 0:
		return refuse(d.path, "it belongs to user %d, who could make root act there; run as that user, or let root own it (chown root) and share it with a group", d.st.Uid)
	case !d.Shared():
		return refuse(d.path, "it belongs to user %d and is not shared with a group; name your own directory (DIBS_DIR), or ask its owner to share it (chmod g+ws)", d.st.Uid)
	}
	return nil
}

// Shared says whether a group shares the directory: then what is made there is the group's too.
func (d *Dir) Shared() bool { return d.st.Mode&0o020 != 0 }

// Path is the path by which the directory was opened. Use it in messages only.
func (d *Dir) Path() string { return d.path }

// Join is the path of something in the directory, for messages.
func (d *Dir) Join(name string) string { return d.path + "/" + name }

// Sys tells the directory's owner, mode and identity, as they were when it was opened.
func (d *Dir) Sys() unix.Stat_t { return d.st }

// Current says whether the path still leads to this directory, with the same owner and mode.
func (d *Dir) Current() bool {
	var st unix.Stat_t
	return unix.Stat(d.path, &st) == nil && st.Ino == d.st.Ino && st.Dev == d.st.Dev &&
		st.Uid == d.st.Uid && st.Gid == d.st.Gid && st.Mode == d.st.Mode
}

// with calls f with the directory's descriptor, and gives its error a path.
func (d *Dir) with(op, name string, f func(fd int) error) error {
	if err := checkName(name); err != nil {
		return &fs.PathError{Op: op, Path: d.Join(name), Err: err}
	}
	defer runtime.KeepAlive(d)
	for {
		switch err := f(int(d.f.Fd())); {
		case err == unix.EINTR:
		case err == nil, errors.Is(err, ErrRefused):
			return err
		default:
			return &fs.PathError{Op: op, Path: d.Join(name), Err: err}
		}
	}
}

// checkName refuses what is not one name.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > 255 || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%w: %.80q is not the name of a file", ErrRefused, name)
	}
	return nil
}

// settle repeats try while it says that what is there may be about to change: in a shared directory
// another user may be between making something and sharing it.
func settle(try func() (again bool, err error)) error {
	for n := 0; ; n++ {
		again, err := try()
		if !again || n == 10 {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// Sub opens a directory in d. Its error wraps fs.ErrNotExist where there is none.
func (d *Dir) Sub(name string) (sub *Dir, err error) {
	err = settle(func() (bool, error) {
		sub, err = d.sub(name)
		return d.Shared() && (errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrRefused)), err
	})
	return sub, err
}

func (d *Dir) sub(name string) (*Dir, error) {
	fd := -1
	err := d.with("open", name, func(at int) (err error) {
		fd, err = unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil, refuse(d.Join(name), "it is not a directory; a user who may write here put it there: remove it")
	}
	if err != nil {
		return nil, err
	}
	sub, err := hold(fd, d.Join(name))
	if err == nil {
		err = d.checkSub(sub)
	}
	return sub, err
}

func (d *Dir) checkSub(sub *Dir) error {
	switch {
	case sub.st.Mode&0o002 != 0:
		return refuse(sub.path, "everybody may write to it; chmod o-w")
	case ours(sub.st.Uid), !d.Shared() && sub.st.Uid == d.st.Uid, d.Shared() && sub.Shared() && sub.st.Gid == d.st.Gid:
		return nil
	}
	return refuse(sub.path, "it belongs to user %d and is not shared with the group of the directory that it is in; remove it, or share it (chgrp, chmod g+ws)", sub.st.Uid)
}

// MakeSub is Sub, and makes the directory where there is none, as open as d is.
func (d *Dir) MakeSub(name string) (*Dir, error) {
	sub, err := d.Sub(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return sub, err
	}
	err = d.with("mkdir", name, func(at int) error { return unix.Mkdirat(at, name, 0o700) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	made := err == nil
	if sub, err = d.sub(name); err != nil && !made {
		return d.Sub(name)
	}
	if err == nil && made && d.Shared() && int(sub.st.Uid) == os.Geteuid() {
		err = sub.share(d)
	}
	return sub, err
}

// share gives a directory that this process has just made to the group.
func (d *Dir) share(parent *Dir) error {
	fd := int(d.f.Fd())
	if d.st.Gid != parent.st.Gid {
		if err := unix.Fchown(fd, -1, int(parent.st.Gid)); err != nil {
			return &fs.PathError{Op: "chgrp", Path: d.path, Err: err}
		}
	}
	err := unix.Fchmod(fd, 0o2770)
	if errors.Is(err, unix.EPERM) {
		// systemd's RestrictSUIDSGID= forbids the bit that gives the group what is made inside. dibs does that itself.
		err = unix.Fchmod(fd, 0o770)
	}
	if err != nil {
		return &fs.PathError{Op: "chmod", Path: d.path, Err: err}
	}
	return unix.Fstat(fd, &d.st)
}

// Names lists what is in the directory, in no order.
func (d *Dir) Names() ([]string, error) {
	var f *os.File
	defer runtime.KeepAlive(d)
	fd, err := unix.Openat(int(d.f.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.path, Err: err}
	}
	f = os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	return f.Readdirnames(-1)
}

// Stat looks at a name, and follows no link.
func (d *Dir) Stat(name string) (st unix.Stat_t, err error) {
	err = d.with("stat", name, func(at int) error { return unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st, err
}

// Exists says whether there is anything of that name.
func (d *Dir) Exists(name string) (bool, error) {
	_, err := d.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Same says whether name still leads to the open file.
func (d *Dir) Same(fd int, name string) (bool, error) {
	var f unix.Stat_t
	if err := unix.Fstat(fd, &f); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	p, err := d.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && f.Ino == p.Ino && f.Dev == p.Dev, err
}

// Rename moves a file within the directory, and replaces what has the new name.
func (d *Dir) Rename(from, to string) error {
	if err := checkName(to); err != nil {
		return err
	}
	return d.with("rename", from, func(at int) error { return unix.Renameat(at, from, at, to) })
}

// Remove removes a file, or a link itself.
func (d *Dir) Remove(name string) error {
	return d.with("remove", name, func(at int) error { return unix.Unlinkat(at, name, 0) })
}

// Sync has the names in the directory on the disk.
func (d *Dir) Sync() error { return d.f.Sync() }
