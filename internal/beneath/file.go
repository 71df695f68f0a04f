package beneath

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Open opens a file of the directory. flags are those of open(2); with O_CREAT a missing file is made. The caller
// closes the descriptor. Open refuses (ErrRefused) everything but a plain file that a user who shares the directory
// may have made there.
func (d *Dir) Open(name string, flags int) (fd int, err error) {
	err = settle(func() (again bool, err error) {
		fd, again, err = d.open(name, flags)
		return again, err
	})
	return fd, err
}

// OpenFile is Open, and answers an os.File.
func (d *Dir) OpenFile(name string, flags int) (*os.File, error) {
	fd, err := d.Open(name, flags)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), d.Join(name)), nil
}

// open tries once; again says that it may turn out otherwise in a moment.
func (d *Dir) open(name string, flags int) (fd int, again bool, err error) {
	if flags&unix.O_EXCL != 0 {
		fd, err = d.create(name, flags)
		return fd, false, err
	}
	fd, err = d.openat(name, flags&^unix.O_CREAT)
	if errors.Is(err, fs.ErrNotExist) && flags&unix.O_CREAT != 0 {
		fd, err = d.create(name, flags)
		return fd, errors.Is(err, fs.ErrExist), err
	}
	if err != nil {
		return -1, d.Shared() && errors.Is(err, fs.ErrPermission), err
	}
	if err := d.checkFile(fd, name); err != nil {
		unix.Close(fd)
		return -1, errors.Is(err, ErrRefused), err // a second name may be about to go
	}
	return fd, false, nil
}

func (d *Dir) openat(name string, flags int) (fd int, err error) {
	err = d.with("open", name, func(at int) (err error) {
		// O_NONBLOCK: a FIFO or a device must not hold us up. A regular file does not know it.
		fd, err = unix.Openat(at, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		return err
	})
	switch {
	case errors.Is(err, unix.ELOOP):
		return -1, refuse(d.Join(name), "it is a symbolic link; a user who may write here put it there: remove it")
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR): // a FIFO or socket that nobody reads; a directory
		return -1, notAFile(d.Join(name))
	}
	return fd, err
}

func notAFile(path string) error {
	return refuse(path, "it is not a regular file; a user who may write here put it there: remove it")
}

// checkFile looks at what was opened.
func (d *Dir) checkFile(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: d.Join(name), Err: err}
	}
	return d.Check(st, name)
}

// Check refuses a file by its fstat(2): one that is not regular, that has other names too (a hard link to a file
// elsewhere), that everybody may write to, or that no user who shares the directory would have made there.
func (d *Dir) Check(st unix.Stat_t, name string) error {
	path := d.Join(name)
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return notAFile(path)
	case st.Nlink > 1:
		return refuse(path, "it has another name elsewhere (a hard link); a user who may write here may have put it there: remove it")
	case st.Mode&0o002 != 0:
		return refuse(path, "everybody may write to it; chmod o-w, if it is dibs's")
	case d.Shared() && st.Gid != d.st.Gid:
		return refuse(path, "its group is %d and not the directory's, %d, so dibs did not make it here; remove it, or chgrp it", st.Gid, d.st.Gid)
	case !d.Shared() && !ours(st.Uid) && st.Uid != d.st.Uid:
		return refuse(path, "it belongs to user %d, who is neither the directory's owner nor you; remove it", st.Uid)
	}
	return nil
}

// create makes a file, with mode 0600, or 0660 and the directory's group in a shared one.
func (d *Dir) create(name string, flags int) (fd int, err error) {
	err = d.with("open", name, func(at int) (err error) {
		fd, err = unix.Openat(at, name, flags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil || !d.Shared() {
		return fd, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Gid != d.st.Gid {
		err = unix.Fchown(fd, -1, int(d.st.Gid))
	}
	if err == nil {
		err = unix.Fchmod(fd, 0o660)
	}
	if err != nil {
		unix.Close(fd)
		return -1, &fs.PathError{Op: "share", Path: d.Join(name), Err: err}
	}
	return fd, nil
}

// Read reads a whole file of at most so many bytes.
func (d *Dir) Read(name string, most int64) ([]byte, error) {
	f, err := d.OpenFile(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, most)
}

// ReadAll reads an open file of at most so many bytes: one that is larger is refused, before it fills
// the memory.
func ReadAll(f *os.File, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = refuse(f.Name(), "it is larger than %d bytes; check what it is, and remove it", most)
	}
	return b, err
}

// Replace puts a whole file in the place of another. With sync it is durable when Replace returns.
func (d *Dir) Replace(name string, b []byte, sync bool) error {
	tmp, err := d.temp(name, b, sync)
	if err != nil {
		return err
	}
	if err := d.Rename(tmp, name); err != nil {
		_ = d.Remove(tmp)
		return err
	}
	if !sync {
		return nil
	}
	return d.Sync()
}

// Publish makes a file whole and durable. If the file is there already, Publish leaves it: of several callers at
// once, one makes it.
func (d *Dir) Publish(name string, b []byte) (made bool, err error) {
	tmp, err := d.temp(name, b, true)
	if err != nil {
		return false, err
	}
	switch err := d.publish(tmp, name); {
	case errors.Is(err, fs.ErrExist):
		return false, d.Remove(tmp)
	case err != nil:
		_ = d.Remove(tmp)
		return false, err
	}
	return true, d.Sync()
}

// temp writes a file of a name that nobody else uses.
func (d *Dir) temp(name string, b []byte, sync bool) (string, error) {
	tmp := name + "." + rand.Text() + ".tmp"
	fd, err := d.create(tmp, unix.O_WRONLY)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), d.Join(tmp))
	_, err = f.Write(b)
	if err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = d.Remove(tmp)
		return "", err
	}
	return tmp, nil
}

// FileName makes a file's name of what came from elsewhere, such as an id that a store tells: what it
// was, if that is one short name without slashes, control characters and a dot in front, and else a hash of it.
func FileName(from string) string {
	odd := func(c rune) bool { return c == '/' || unicode.IsControl(c) }
	if checkName(from) == nil && len(from) <= 128 && from[0] != '.' && utf8.ValidString(from) && !strings.ContainsFunc(from, odd) {
		return from
	}
	sum := sha256.Sum256([]byte(from))
	return "x" + hex.EncodeToString(sum[:16])
}
