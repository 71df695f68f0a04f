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
	// Group is who may read it; with -1 only the user who writes it can.
	Group int
}

// FileName contains a hash of the text and the group. So an entry and its specification change in one step, a file
// that was written once never changes, and users of two groups do not take it from each other.
func (s Spec) FileName() string {
	h := sha256.New()
	fmt.Fprintln(h, s.Group)
	h.Write(s.Text)
	return s.App + "." + s.Job + "-" + hex.EncodeToString(h.Sum(nil)[:8]) + ".json"
}

// mode is the file's.
func (s Spec) mode() fs.FileMode {
	if s.Group >= 0 {
		return 0o640
	}
	return 0o600
}

// Specs is a directory of specifications, by its absolute path. Only root and the user who runs dibs may write there.
type Specs string

// Path is where a specification is.
func (at Specs) Path(s Spec) string { return filepath.Join(string(at), s.FileName()) }

// Put writes those specifications that are not there yet. A file of the same name with another text, mode or group is
// replaced: somebody changed it.
func (at Specs) Put(specs []Spec) error {
	if len(specs) == 0 {
		return nil
	}
	d, err := at.make()
	if err != nil {
		return err
	}
	for _, s := range specs {
		if err := put(d, s); err != nil {
			return fmt.Errorf("leave the specification of %s/%s: %w", s.App, s.Job, err)
		}
	}
	return d.Sync()
}

func (at Specs) make() (*beneath.Dir, error) {
	if !filepath.IsAbs(string(at)) {
		return nil, fmt.Errorf("%s: want an absolute path", at)
	}
	if err := makePublic(string(at)); err != nil {
		return nil, err
	}
	return at.open()
}

// makePublic makes a directory, and those above it, with mode 0755 whatever the umask is: entries run as others too.
// What is there stays as it is.
func makePublic(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makePublic(filepath.Dir(path)); err != nil {
		return err
	}
	switch err := os.Mkdir(path, 0o700); {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return os.Chmod(path, 0o755)
}

// open refuses a directory in which others decide what the entries' jobs do.
func (at Specs) open() (*beneath.Dir, error) {
	d, err := beneath.Open(string(at))
	if err == nil {
		err = private(d.Sys(), d.Path())
	}
	return d, err
}

func put(d *beneath.Dir, s Spec) (err error) {
	name := s.FileName()
	if why, err := s.differs(d); err == nil && why == "" {
		return nil
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
	if err == nil && s.Group >= 0 {
		err = out.Chown(-1, s.Group)
	}
	if err == nil {
		err = out.Chmod(s.mode())
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
		if own.MatchString(name) && strings.Contains(was, " "+filepath.Join(string(at), name)) && !strings.Contains(is, name) {
			errs = append(errs, d.Remove(name))
		}
	}
	return errors.Join(errs...)
}

// Differs says what is wrong with a specification that should be there, or nothing.
func (at Specs) Differs(s Spec) string {
	d, err := at.open()
	why := ""
	if err == nil {
		why, err = s.differs(d)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return at.Path(s) + " is missing"
	case err != nil:
		return fmt.Sprintf("the copy of its specification cannot be read: %v", err)
	}
	return why
}

// differs says how a copy differs, or nothing.
func (s Spec) differs(d *beneath.Dir) (why string, err error) {
	is, err := readPrivate(d, s.FileName(), maxSpec)
	if err != nil {
		return "", err
	}
	st, err := d.Stat(s.FileName())
	switch at := d.Join(s.FileName()); {
	case err != nil:
		return "", err
	case !bytes.Equal(is, s.Text):
		return at + " was changed by hand", nil
	case fs.FileMode(st.Mode).Perm() != s.mode():
		return fmt.Sprintf("%s has mode %04o, not %04o", at, st.Mode&0o777, s.mode()), nil
	case s.Group >= 0 && int(st.Gid) != s.Group:
		return fmt.Sprintf("%s has group %d, not %d", at, st.Gid, s.Group), nil
	}
	return "", nil
}
