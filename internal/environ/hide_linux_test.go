package environ_test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/dibs-run/dibs/internal/environ"
)

// What others see of the environment is overwritten, what this process knows of it is not.
func TestHide(t *testing.T) {
	if os.Getenv("HIDE_PLAY") == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestHide$")
		cmd.Env = append(os.Environ(), "HIDE_PLAY=1", "A_SECRET=hunter2", "A_SECRET_NOT=shown", "OTHER=hunter3")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	before := os.Environ()
	if err := environ.Hide("A_SECRET", "ABSENT"); err != nil {
		t.Fatal(err)
	}
	seen, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(seen, []byte("hunter2")) || !bytes.Contains(seen, []byte("\x00A_SECRET=xxxxxxx\x00")) {
		t.Errorf("%q", seen)
	}
	if !bytes.Contains(seen, []byte("A_SECRET_NOT=shown")) || !bytes.Contains(seen, []byte("OTHER=hunter3")) {
		t.Errorf("%q", seen)
	}
	if os.Getenv("A_SECRET") != "hunter2" || len(os.Environ()) != len(before) {
		t.Error("it is gone here as well")
	}
	out, err := exec.Command("env").Output()
	if err != nil || !bytes.Contains(out, []byte("A_SECRET=hunter2")) {
		t.Errorf("%v: a child is given %q", err, out)
	}
}
