package postgres

import (
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dibs-run/dibs/store"
)

// TestFilesOfAnAddress: a device or a pipe among them is refused before the client reads it.
func TestFilesOfAnAddress(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey", "passfile", "servicefile"} {
		for _, path := range []string{"/dev/zero", pipe} {
			c, err := store.Parse("postgres://app:hunter2@db/app?" + name + "=" + url.QueryEscape(path))
			if err != nil {
				t.Fatal(err)
			}
			if _, err = poolConfig(c); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "no regular file") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s=%s: %v", name, path, err)
			}
		}
	}
}
