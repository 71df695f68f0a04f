package mirror

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// A Cursor keeps how far a directory was copied to one store, through a crash. One that is lost costs
// a second sending, which changes nothing.
type Cursor interface {
	Load() (Position, error)
	Save(Position) error
}

// A Position is how far it was copied: all that began before Until, but for what was unfinished.
type Position struct {
	Until time.Time `json:"until"`
	// Marks are the marks of jobs as they were: what is settled later lies between them and the
	// marks of then.
	Marks map[string]time.Time `json:"marks,omitempty"`
	// Runs and Ticks had no outcome yet.
	Runs  []string `json:"runs,omitempty"`
	Ticks []ID     `json:"ticks,omitempty"`
}

// An ID names a tick.
type ID struct {
	Job string    `json:"job"`
	At  time.Time `json:"tick"`
}

// File is a Cursor in a file of the host's directory.
type File string

// FileIn is the cursor in dir for the store with the given installation id and namespace.
func FileIn(dir, installation, namespace string) File {
	return File(filepath.Join(dir, "mirror", installation+"-"+namespace+".json"))
}

// Load fulfils Cursor. A file that cannot be understood, as a loss of power can leave one, is none.
func (f File) Load() (p Position, err error) {
	b, err := os.ReadFile(string(f))
	if os.IsNotExist(err) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("how far this host's jobs were copied: %w", err)
	}
	if json.Unmarshal(b, &p) != nil {
		return Position{}, nil
	}
	return p, nil
}

// Save fulfils Cursor.
func (f File) Save(p Position) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	mode, group := os.FileMode(0o600), os.FileMode(0o700)
	if st, err := os.Stat(filepath.Dir(filepath.Dir(string(f)))); err == nil && st.Mode().Perm()&0o020 != 0 {
		mode, group = 0o660, 0o770 // a group's directory: whoever copies next writes it
	}
	dir := filepath.Dir(string(f))
	if os.Mkdir(dir, group) == nil {
		_ = os.Chmod(dir, group) // whatever the umask is
	}
	tmp, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return fmt.Errorf("how far this host's jobs were copied: %w", err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // it was renamed
	_, err = tmp.Write(b)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), string(f))
	}
	if err != nil {
		return fmt.Errorf("how far this host's jobs were copied: %w", err)
	}
	return nil
}
