package disk

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/beneath"
)

const tempEnd = ".dibs-tmp"

// Sweep removes what an interrupted Replace of a file left. The lock is held, so none is going on.
func Sweep(d *beneath.Dir, base string) error {
	names, err := d.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "."+base+".") && strings.HasSuffix(name, tempEnd) {
			if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Write writes a text to a new file; tests make it fail.
type Write func(*os.File, string) error

// Replace puts a new file in the place of an old one, in one step, durably, with the same owner, group and mode (or
// 0644). A failure leaves the old file.
func Replace(d *beneath.Dir, base, text string, existed bool, write Write) (err error) {
	// A dot in front: neither cron nor systemd reads it.
	tmp := "." + base + "." + rand.Text() + tempEnd
	out, err := d.OpenFile(tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.Remove(tmp)
		}
	}()
	err = fill(d, base, out, text, existed, write)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = d.Rename(tmp, base)
	}
	if err != nil {
		return err
	}
	return d.Sync()
}

// fill writes the text, and gives the file its owner and mode before it gets its name.
func fill(d *beneath.Dir, base string, out *os.File, text string, existed bool, write Write) error {
	mode := fs.FileMode(0o644)
	if existed {
		st, err := d.Stat(base)
		if err != nil {
			return err
		}
		if err := out.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return fmt.Errorf("keep its owner: %w", err)
		}
		mode = fs.FileMode(st.Mode & 0o777)
	}
	if err := write(out, text); err != nil {
		return err
	}
	if err := out.Chmod(mode); err != nil {
		return err
	}
	return out.Sync()
}

// Text is the usual Write.
func Text(f *os.File, text string) error {
	_, err := f.WriteString(text)
	return err
}
