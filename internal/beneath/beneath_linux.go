package beneath

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// At is a path of the directory for code that can only open paths. It leads to the open directory, even if another
// directory has its name meanwhile. It is good for as long as d is referred to.
func (d *Dir) At() string { return "/proc/self/fd/" + strconv.Itoa(int(d.f.Fd())) }

// mostLinks is how many links may be on a path, as in the kernel.
const mostLinks = 40

// walk opens a directory step by step, so that it sees each symbolic link and whose it is. It may make
// what is missing.
func walk(path string, make bool) (fd int, made bool, err error) {
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false, err
	}
	rest, links := strings.Split(path, "/"), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next, to, fresh, err := step(at, name, make)
		made = made || fresh
		if err == unix.ENOTDIR && len(rest) == 0 {
			err = errors.New("it is not a directory; name one")
		}
		if to != "" {
			if links++; links > mostLinks {
				err = unix.ELOOP
			}
			rest = append(strings.Split(to, "/"), rest...)
			if !filepath.IsAbs(to) {
				if err == nil {
					continue
				}
			} else if err == nil {
				next, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			}
		}
		unix.Close(at)
		if err != nil {
			return -1, made, err
		}
		at = next
	}
	defer unix.Close(at)
	fd, err = unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return fd, made, err
}

// step goes to a directory, or says where a link leads.
func step(at int, name string, make bool) (next int, link string, made bool, err error) {
	next, err = unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT && make {
		if err = unix.Mkdirat(at, name, 0o700); err != nil && err != unix.EEXIST {
			return -1, "", false, err
		}
		made = err == nil
		next, err = unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return -1, "", made, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(next, &st); err == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			return next, "", made, nil
		case unix.S_IFLNK:
			link, err = readLink(next, st, name)
		default:
			err = unix.ENOTDIR
		}
	}
	unix.Close(next)
	return -1, link, made, err
}

func readLink(fd int, st unix.Stat_t, name string) (string, error) {
	if !ours(st.Uid) {
		return "", fmt.Errorf("%w: its part %q is a symbolic link of user %d; name the directory without that link", ErrRefused, name, st.Uid)
	}
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", b)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(b[:max(n, 0)]), err
}

// publish gives a file its name unless that is taken, without a moment in which it has two.
func (d *Dir) publish(tmp, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	defer runtime.KeepAlive(d)
	err := d.with("rename", tmp, func(at int) error { return unix.Renameat2(at, tmp, at, name, unix.RENAME_NOREPLACE) })
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// A file system that cannot. Readers wait for the second name to go (see settle).
	if err := d.with("link", name, func(at int) error { return unix.Linkat(at, tmp, at, name, 0) }); err != nil {
		return err
	}
	return d.Remove(tmp)
}
