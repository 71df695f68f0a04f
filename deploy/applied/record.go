package applied

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/internal/lazy"
)

// maxRecord is the largest record that is read, in bytes. maxRecords is how many are read.
const (
	maxRecord  = 64 << 10
	maxRecords = 1000
)

// A Record says what was installed where. It contains no secret's value. It has no instant, so applying the same again
// changes nothing.
type Record struct {
	App string `json:"app"`
	// Target is the target's name, as deploy.Target's String returns it.
	Target string `json:"target"`
	// Manifest is the manifest's absolute path or its address.
	Manifest string `json:"manifest"`
	// Args are the flags that say what the entries are to be, To among them.
	Args []string `json:"args"`
	To   string   `json:"to"`
	// Env are the variables that had an influence on the entries, by name.
	Env map[string]string `json:"env,omitempty"`
}

var appName = lazy.Regexp(`^[a-z][a-z0-9-]{0,62}$`)

func (r Record) check() error {
	if !appName().MatchString(r.App) || r.Target == "" || r.Manifest == "" || r.To == "" {
		return errors.New("it is not a record of dibs apply")
	}
	return nil
}

// fileName is a record's own, whatever the target's name is made of.
func fileName(app, target string) string {
	sum := sha256.Sum256([]byte(target))
	return app + "@" + hex.EncodeToString(sum[:8]) + ".json"
}

// Records is the directory of a host's records. Only root and the user who runs dibs may write there and to the
// directory that it is in, since a record says which files are read, and so which commands run. Otherwise there are
// no records: in a directory that a group shares, a member could move another directory to this name.
type Records string

// open opens the directory, or makes it.
func (at Records) open(make bool) (*beneath.Dir, error) {
	parent, err := beneath.Open(filepath.Dir(string(at)))
	if err != nil {
		return nil, err
	}
	if private(parent.Sys(), parent.Path()) != nil {
		return nil, fmt.Errorf("%w: %s is shared, and another user could put records there: name the manifest with --manifest", errNone, parent.Path())
	}
	sub := parent.Sub
	if make {
		sub = parent.MakeSub
	}
	d, err := sub(filepath.Base(string(at)))
	if err == nil {
		err = private(d.Sys(), d.Path())
	}
	return d, err
}

// errNone is of a directory that must not have records. A group may share it on purpose, so to read none there is no
// fault.
var errNone = fmt.Errorf("no records are kept: %w", ErrShared)

// none says whether an error means that there are no records.
func none(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNone) }

// Put keeps a record in the place of an earlier one of the same app and target. It writes nothing if that is equal.
func (at Records) Put(r Record) error {
	if err := r.check(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	// The directory above is for others too, such as /etc/dibs.
	if err := os.MkdirAll(filepath.Dir(string(at)), 0o755); err != nil {
		return err
	}
	d, err := at.open(true)
	if err != nil {
		return err
	}
	name := fileName(r.App, r.Target)
	if was, err := readPrivate(d, name, maxRecord); err == nil && bytes.Equal(was, text) {
		return nil
	}
	return d.Replace(name, text, true)
}

// Drop forgets a record. One that is not there is no error.
func (at Records) Drop(app, target string) error {
	d, err := at.open(false)
	if err == nil {
		err = d.Remove(fileName(app, target))
	}
	if none(err) {
		return nil
	}
	return err
}

// All returns the records in order of app and target. An error about one of them does not hide the others. Without
// the directory there are none, nor in one that others share.
func (at Records) All() (all []Record, err error) {
	d, err := at.open(false)
	if none(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := d.Names()
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		if !strings.HasSuffix(name, ".json") || strings.HasPrefix(name, ".") {
			continue
		}
		if len(all) == maxRecords {
			errs = append(errs, fmt.Errorf("%s has more than %d records: only these are read", at, maxRecords))
			break
		}
		r, err := read(d, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.Join(name), err))
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Record) int {
		return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(a.Target, b.Target))
	})
	return all, errors.Join(errs...)
}

func read(d *beneath.Dir, name string) (r Record, err error) {
	text, err := readPrivate(d, name, maxRecord)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%w; apply again, or remove it", err)
	}
	if err := r.check(); err != nil || fileName(r.App, r.Target) != name {
		return r, errors.New("it is not a record of dibs apply; remove it")
	}
	return r, nil
}
