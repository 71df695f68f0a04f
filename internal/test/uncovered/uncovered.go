// Package uncovered records what a run of the tests leaves out because this machine lacks something. Package suite
// lists it at the end, so that a green run cannot hide it.
package uncovered

import (
	"errors"
	"os"
	"testing"
)

// Env names the file to which the test processes of a run append; unset, they record nothing.
const Env = "DIBS_TEST_UNCOVERED"

// Skip records what this machine cannot do, and skips the test. why says what is missing.
func Skip(t testing.TB, what, why string) {
	t.Helper()
	Record(t, what)
	t.Skipf("NOT COVERED: %s: %s", what, why)
}

// Require is Skip for what CI must have: with DIBS_TEST_REQUIRE=all it fails the test.
func Require(t testing.TB, what, why string) {
	t.Helper()
	if Required() {
		t.Fatalf("%s: %s; DIBS_TEST_REQUIRE=all forbids skipping", what, why)
	}
	Skip(t, what, why)
}

// Required reports whether nothing that a machine can have may be missing.
func Required() bool { return os.Getenv("DIBS_TEST_REQUIRE") == "all" }

// Record appends one line in one write, since test processes run side by side.
func Record(t testing.TB, what string) {
	t.Helper()
	path := os.Getenv(Env)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(what + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatalf("%s: %v", Env, err)
	}
}
