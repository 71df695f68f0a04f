package lease_test

import (
	"strings"
	"testing"

	"github.com/dibs-run/dibs/lease"
)

// Fault: whoever could write a lease's record wrote a line of their own into what others were told about its holder.
func TestAHolderIsNamedInOneLine(t *testing.T) {
	h := lease.Holder{Host: "a\nroot: all is well\x1b[31m\u202e", PID: 7, RunID: "r\r\x00"}
	if got, want := h.String(), "a\ufffdroot: all is well\ufffd[31m\ufffd pid 7 run r\ufffd\ufffd"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	err := &lease.HeldError{Record: lease.Record{Key: "k\n", Holder: h}}
	if strings.ContainsAny(err.Error(), "\n\r\x1b\x00") {
		t.Errorf("%q", err)
	}
}
