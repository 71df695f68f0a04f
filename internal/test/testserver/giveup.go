package testserver

import (
	"errors"
	"os"
	"testing"
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
	if os.Getenv("DIBS_TEST_REQUIRE") == "all" && !tech.optional {
		t.Fatalf("testserver: %s: %v; DIBS_TEST_REQUIRE=all forbids skipping: install it, or name a server in DIBS_TEST_%s",
			name, err, envName(name))
	}
	if file := os.Getenv("DIBS_TEST_UNCOVERED"); file != "" {
		if err := record(file, name+"\n"); err != nil {
			t.Fatalf("testserver: DIBS_TEST_UNCOVERED: %v", err)
		}
	}
	t.Skipf("NOT COVERED: %s: %v", name, err)
}

// record appends in one write, since test processes run side by side.
func record(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

func envName(name string) string {
	return map[string]string{"redis": "REDIS", "postgres": "POSTGRES", "mariadb": "MARIADB"}[name]
}
