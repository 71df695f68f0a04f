package postgres

import (
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dibs-run/dibs/store"
)

// TestFilesOfAnAddress: a device or a pipe among them, or among those that the environment names beside it, is refused
// before the client reads it.
func TestFilesOfAnAddress(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(t *testing.T, parameter, address string) {
		t.Helper()
		c, err := store.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = poolConfig(c); err == nil || !strings.Contains(err.Error(), parameter) || !strings.Contains(err.Error(), "no regular file") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
	const address = "postgres://app:hunter2@db/app"
	for name, variable := range map[string]string{"sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY",
		"passfile": "PGPASSFILE", "servicefile": "PGSERVICEFILE"} {
		for _, path := range []string{"/dev/zero", pipe} {
			refused(t, name, address+"?"+name+"="+url.QueryEscape(path))
			t.Run(variable, func(t *testing.T) {
				t.Setenv(variable, path)
				refused(t, name, address)
			})
		}
	}
}
