//go:build !linux

package beneath

import (
	"os"

	"golang.org/x/sys/unix"
)

// walk opens a directory. Links on the way are the system's to judge here.
func walk(path string, make bool) (fd int, made bool, err error) {
	if _, err := os.Stat(path); make && os.IsNotExist(err) {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return -1, false, err
		}
		made = true
	}
	fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return fd, made, err
}

// publish gives a file its name unless that is taken. Readers wait for the second name to go.
func (d *Dir) publish(tmp, name string) error {
	if err := d.with("link", name, func(at int) error { return unix.Linkat(at, tmp, at, name, 0) }); err != nil {
		return err
	}
	return d.Remove(tmp)
}
