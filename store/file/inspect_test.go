//go:build linux

package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestInspectChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d")
	if _, err := Inspect(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where nothing is: %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it was made: %v", err)
	}
	s, err := OpenConfig(context.Background(), configAt(path, true))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := Inspect(path)
	if err != nil || d.ID != s.Properties.InstallationID || d.UID != os.Geteuid() || d.Mode.Perm() != 0o700 || d.SharedFS != "" {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestInspectNamesASharedFileSystem(t *testing.T) {
	dir := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	magic := int64(uint32(st.Type))
	if name, ok := shared[magic]; ok {
		t.Skipf("NOT COVERED: the temporary directory is itself on %s", name)
	}
	shared[magic] = "NFS" // as if it were
	defer delete(shared, magic)
	if d, err := Inspect(dir); err != nil || d.SharedFS != "NFS" {
		t.Errorf("%+v, %v", d, err)
	}
}
