//go:build linux

package e2e

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// `make run` shows what it says.
func TestDemo(t *testing.T) {
	if !long {
		t.Skip("it takes 45 s: DIBS_TEST_LONG=1")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	demo := t.TempDir() + "/demo"
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", demo, "github.com/dibs-run/dibs/internal/test/demo").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, demo, dibsBinary)
	// A group of its own, so that its servers end with this test whatever becomes of it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), " 0 doubled") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(lastLine(string(out)))
}
