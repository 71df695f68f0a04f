package applied

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/beneath"
)

// maxSpec is the largest specification, in bytes.
const maxSpec = 8 << 20

// A Spec is a job's specification in a file of its own: a manifest with one job.
type Spec struct {
	App, Job string
	Text     []byte
}

// FileName contains a hash of the text. So an entry and its specification change in one step, and a file that was
// written once never changes.
func (s Spec) FileName() string {
	sum := sha256.Sum256(s.Text)
	return s.App + "." + s.Job + "-" + hex.EncodeToString(sum[:8]) + ".json"
}

// Specs is a directory of specifications, by its absolute path. Only root and the user who runs dibs may write there.
type Specs string

// Path is where a specification is.
func (at Specs) Path(s Spec) string { return filepath.Join(string(at), s.FileName()) }

// Put writes those specifications that are not there yet. Group 0 or more may read them; with -1 only the user who
// calls this can. A file of the same name with another text is replaced: somebody changed it.
func (at Specs) Put(specs []Spec, group int) error {
	if len(specs) == 0 {
		return nil
	}
	d, err := at.make()
	if err != nil {
		return err
	}
	for _, s := range specs {
		if err := put(d, s, group); err != nil {
			return fmt.Errorf("leave the specification of %s/%s: %w", s.App, s.Job, err)
		}
	}
	return d.Sync()
}

func (at Specs) make() (*beneath.Dir, error) {
	if !filepath.IsAbs(string(at)) {
		return nil, fmt.Errorf("%s: want an absolute path", at)
	}
	if _, err := os.Stat(string(at)); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(string(at), 0o755); err != nil {
			return nil, err
		}
		if err := os.Chmod(string(at), 0o755); err != nil { // whatever the umask: entries run as others too
			return nil, err
		}
	}
	return at.open()
}

// open refuses a directory in which others decide what the entries' jobs do.
func (at Specs) open() (*beneath.Dir, error) {
	d, err := beneath.Open(string(at))
	if err == nil {
		err = private(d.Sys(), d.Path())
	}
	return d, err
}

func put(d *beneath.Dir, s Spec, group int) (err error) {
	name, mode := s.FileName(), fs.FileMode(0o600)
	if group >= 0 {
		mode = 0o640
	}
	if was, err := readPrivate(d, name, maxSpec); err == nil && bytes.Equal(was, s.Text) {
		st, err := d.Stat(name)
		if err == nil && uint32(st.Mode)&0o777 == uint32(mode) && (group < 0 || int(st.Gid) == group) {
			return nil
		}
	}
	tmp := "." + name + "." + rand.Text() + ".dibs-tmp"
	out, err := d.OpenFile(tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.Remove(tmp)
		}
	}()
	_, err = out.Write(s.Text)
	if err == nil && group >= 0 {
		err = out.Chown(-1, group)
	}
	if err == nil {
		err = out.Chmod(mode)
	}
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return d.Rename(tmp, name)
}

// Sweep removes the specifications of an app that the texts before name, by their whole path, and those after do not.
// Others stay: a target that nobody here knows of may name them, or a plain line.
func (at Specs) Sweep(app string, before, after []string) error {
	d, err := at.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := d.Names()
	if err != nil {
		return err
	}
	own := regexp.MustCompile(`^` + regexp.QuoteMeta(app) + `\.[a-z][a-z0-9-]{0,62}-[0-9a-f]{16}\.json$`)
	was, is := strings.Join(before, "\n"), strings.Join(after, "\n")
	var errs []error
	for _, name := range names {
		if own.MatchString(name) && strings.Contains(was, filepath.Join(string(at), name)) && !strings.Contains(is, name) {
			errs = append(errs, d.Remove(name))
		}
	}
	return errors.Join(errs...)
}

// Differs says what is wrong with a specification that should be there, or nothing.
func (at Specs) Differs(s Spec) string {
	d, err := at.open()
	var is []byte
	if err == nil {
		is, err = readPrivate(d, s.FileName(), maxSpec)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return at.Path(s) + " is missing"
	case err != nil:
		return fmt.Sprintf("the copy of its specification cannot be read: %v", err)
	case !bytes.Equal(is, s.Text):
		return at.Path(s) + " was changed by hand"
	}
	return ""
}
