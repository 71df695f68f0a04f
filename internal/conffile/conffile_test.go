package conffile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A path that is no regular file is not opened, and a pipe keeps nobody waiting.
// Holds: promise 25.
func TestOnlyRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "a pipe", link: "a pipe", dir: "a directory", "/dev/zero": "a device", "/dev/tty": "a device"} {
		_, err := Read(path, Small)
		var named *fs.PathError
		if !errors.Is(err, ErrNotRegular) || !errors.As(err, &named) || named.Path != path || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if _, err := Read(filepath.Join(dir, "missing"), Small); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestFilesAreBounded: a byte too many is refused, and what grows is not read to its end.
func TestFilesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), Small), 0o600); err != nil {
		t.Fatal(err)
	}
	link := path + "-link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(link, Small); err != nil || len(b) != Small {
		t.Fatal(len(b), err)
	}
	for _, size := range []int64{Small + 1, 1 << 40} { // sparse
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if b, err := Read(path, Small); err == nil || !strings.Contains(err.Error(), "larger than 65536 bytes") {
			t.Fatal(size, len(b), err)
		}
	}
}

// TestAFileSystemThatHangs: the caller goes on, with an error.
func TestAFileSystemThatHangs(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	_, err := within(time.Millisecond, "/far/secret", func() ([]byte, error) { <-hang; return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "/far/secret") {
		t.Fatal(err)
	}
}
