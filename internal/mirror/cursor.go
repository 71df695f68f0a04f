package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/dibs-run/dibs/internal/beneath"
)

// A Cursor keeps how far a directory was copied to one store, through a crash. If it is lost, everything is sent
// again, which changes nothing.
type Cursor interface {
	Load() (Position, error)
	Save(Position) error
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
func (f File) Load() (p Position, err error) {
	b, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read how far this host's jobs were copied: %w", err)
	}
	if json.Unmarshal(b, &p) != nil {
		return Position{}, nil
	}
	return p, nil
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
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	d, err := beneath.Open(f.dir)
	if err == nil {
		d, err = d.MakeSub(folder)
	}
	if err == nil {
		err = d.Replace(f.name, b, false)
	}
	if err != nil {
		return fmt.Errorf("read how far this host's jobs were copied: %w", err)
	}
	return nil
}
