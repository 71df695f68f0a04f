package postgres

import (
	"fmt"
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
		_, err = poolConfig(c, new(behind))
		text := fmt.Sprint(err)
		if !strings.Contains(text, parameter) || !strings.Contains(text, "not a regular file") || strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s", address, text)
		}
	}
	const address = "postgres://app:hunter2@db/app"
	for name, variable := range map[string]string{"sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT",
		"sslkey": "PGSSLKEY", "passfile": "PGPASSFILE", "servicefile": "PGSERVICEFILE"} {
		for _, path := range []string{"/dev/zero", pipe} {
			refused(t, name, address+"?"+name+"="+url.QueryEscape(path))
			t.Run(variable, func(t *testing.T) {
				t.Setenv(variable, path)
				refused(t, name, address)
			})
		}
	}
}
