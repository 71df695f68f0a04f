package testserver

import (
	"errors"
	"testing"

	"github.com/dibs-run/dibs/internal/test/uncovered"
)

// errNoBinary is wrapped when the machine has no binaries of a technology: the one reason to skip
// a test. A server that is there and does not work is a failure.
var errNoBinary = errors.New("not on this machine")

// giveUp ends a test that has no server: loudly where it must not be missing.
func giveUp(t testing.TB, tech technology, err error) {
	t.Helper()
	name := tech.name
	if !errors.Is(err, errNoBinary) {
		t.Fatalf("testserver: %s: %v", name, err)
	}
	if uncovered.Required() && !tech.optional {
		t.Fatalf("testserver: %s: %v; DIBS_TEST_REQUIRE=all forbids skipping: install it, or name a server in DIBS_TEST_%s",
			name, err, envName(name))
	}
	uncovered.Skip(t, name, err.Error())
}

func envName(name string) string {
	return map[string]string{"redis": "REDIS", "postgres": "POSTGRES", "mariadb": "MARIADB"}[name]
}
