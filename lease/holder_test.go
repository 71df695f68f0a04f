package lease_test

import (
	"encoding/json"
	"reflect"
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

// What a store writes with a grant is read as JSON by others.
func TestAppendJSONIsWhatEncodingJSONMakes(t *testing.T) {
	texts := []string{"", "web-1", "é", `a"b`, `a\b`, "a&b", "<", ">", "line\nend\x00\x7f", "\xff", "\u2028", " ~"}
	for _, s := range texts {
		for _, h := range []lease.Holder{
			{Host: s},
			{ID: lease.NewNonce(), Host: s, HostID: s, BootID: s, PIDNS: s, PID: -4711, Start: 1<<64 - 1, RunID: s, Command: s, Cgroup: s, Apart: true, Replaceable: true},
			{ID: lease.NewNonce(), PID: 1, Command: s, Apart: s == ""},
		} {
			want, err := json.Marshal(h)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.AppendJSON([]byte("before")); string(got) != "before"+string(want) {
				t.Errorf("%s\nwant  before%s", got, want)
			}
		}
	}
	if n := reflect.TypeFor[lease.Holder]().NumField(); n != 12 {
		t.Errorf("a Holder has %d fields; AppendJSON knows 12", n)
	}
}
