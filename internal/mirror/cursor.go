package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/beneath"
)

// A Cursor keeps how far a directory was copied to one store, through a crash. If it is lost, everything is sent
// again, which changes nothing.
type Cursor interface {
	Load() (Position, error)
	Save(Position) error
	// LoadName and SaveName keep what the directory is called there. What is saved survives a power loss.
	LoadName() (Name, error)
	SaveName(Name) error
}

// A Position is how far the directory was copied: all that began before Until, except what was unfinished.
type Position struct {
	Until time.Time `json:"until"`
	// Marks are the marks of jobs at that time: what is settled later is between them and the later marks.
	Marks map[string]time.Time `json:"marks,omitempty"`
	// Runs and Ticks had no outcome yet.
	Runs  []string `json:"runs,omitempty"`
	Ticks []ID     `json:"ticks,omitempty"`
}

// An ID identifies a tick.
type ID struct {
	Job string    `json:"job"`
	At  time.Time `json:"tick"`
}

// A File is a Cursor in a file of the host's directory, DIR/mirror/NAME.json. Others may share the
// directory, so it is opened beneath it.
type File struct{ dir, name string }

// FileIn returns the cursor in dir for the store with the given installation id and namespace.
func FileIn(dir, installation, namespace string) File {
	return File{dir, beneath.FileName(installation+"-"+namespace) + ".json"}
}

const folder = "mirror"

// mostCursor bounds the file, in bytes: anybody who shares the directory can make it of any size.
const mostCursor = 64 << 20

// Load implements Cursor. A file that cannot be parsed, as a power loss can leave one, counts as none.
func (f File) Load() (Position, error) {
	p, err := load[Position](f)
	if err != nil {
		return p, fmt.Errorf("read how far this host's jobs were copied: %w", err)
	}
	return p, nil
}

// LoadName implements Cursor.
func (f File) LoadName() (Name, error) {
	n, err := load[Name](f.ofName())
	if err != nil {
		return n, fmt.Errorf("read this host's id in the shared store: %w", err)
	}
	return n, nil
}

// ofName is the file beside f that keeps the name.
func (f File) ofName() File { return File{f.dir, strings.TrimSuffix(f.name, ".json") + ".name.json"} }

func load[T any](f File) (v T, err error) {
	b, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	if err == nil && json.Unmarshal(b, &v) != nil {
		return *new(T), nil
	}
	return v, err
}

func (f File) read() ([]byte, error) {
	d, err := beneath.Open(f.dir)
	if err == nil {
		d, err = d.Sub(folder)
	}
	if err != nil {
		return nil, err
	}
	return d.Read(f.name, mostCursor)
}

// Save implements Cursor.
func (f File) Save(p Position) error {
	if err := f.save(p, false); err != nil {
		return fmt.Errorf("write how far this host's jobs were copied: %w", err)
	}
	return nil
}

// SaveName implements Cursor.
func (f File) SaveName(n Name) error {
	if err := f.ofName().save(n, true); err != nil {
		return fmt.Errorf("write this host's id in the shared store: %w", err)
	}
	return nil
}

func (f File) save(v any, sync bool) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d, err := beneath.Open(f.dir)
	if err == nil {
		d, err = d.MakeSub(folder)
	}
	if err == nil {
		err = d.Replace(f.name, b, sync)
	}
	return err
}
