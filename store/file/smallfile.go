//go:build linux

package file

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dibs-run/dibs/lease"
)

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil
}

// createJSON makes a file whole and durable, or leaves the one that is there: of several who
// try at once, one makes it.
func createJSON(path string, v any, perm os.FileMode) (made bool, err error) {
	tmp, err := writeTemp(path, v, perm)
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp)
	switch err := os.Link(tmp, path); {
	case os.IsExist(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, syncDir(filepath.Dir(path))
}

// replaceJSON puts a whole and durable file in the place of another.
func replaceJSON(path string, v any, perm os.FileMode) error {
	tmp, err := writeTemp(path, v, perm)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeTemp(path string, v any, perm os.FileMode) (tmp string, err error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return writeTempBytes(path, append(b, '\n'), perm)
}

func writeTempBytes(path string, b []byte, perm os.FileMode) (tmp string, err error) {
	tmp = path + "." + lease.NewNonce().String() + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return "", err
	}
	if err = widen(tmp, perm); err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(tmp)
		return "", err
	}
	return tmp, nil
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
