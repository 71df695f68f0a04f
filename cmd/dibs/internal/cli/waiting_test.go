package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
)

type safeBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// Who waits at a terminal is told for whom; a log is not.
func TestWhoWaitsAtATerminalIsToldForWhom(t *testing.T) {
	t.Setenv("DIBS_DIR", filepath.Join(t.TempDir(), "host"))
	c, err := store.Parse(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c.Init = true
	st, err := all.OpenConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	keeper, err := lease.NewKeeper(lease.Options{Store: st.Leases, Notify: st.Notify})
	if err != nil {
		t.Fatal(err)
	}
	defer keeper.Close()
	for _, tty := range []bool{true, false} {
		held, err := keeper.Acquire(t.Context(), lease.Want{Key: "k", Holder: lease.Holder{Host: "web-1", PID: 7, Command: "./deploy.sh\x1b[2J"}})
		if err != nil {
			t.Fatal(err)
		}
		var stderr safeBuffer
		done := make(chan int)
		go func() {
			done <- execute(t.Context(), []string{"run", "--store", c.URL.Path, "--key", "k", "--wait", "5m", "--", "true"},
				env{stdin: strings.NewReader(""), stdout: &stderr, stderr: &stderr, log: screen{tty: tty}})
		}()
		if tty {
			for end := time.Now().Add(2 * time.Minute); !strings.Contains(stderr.String(), "waiting for web-1 pid 7") && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
		} else {
			time.Sleep(100 * time.Millisecond)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if status := <-done; status != 0 {
			t.Errorf("exit status %d: %s", status, &stderr)
		}
		if said := strings.Contains(stderr.String(), "waiting for web-1 pid 7"); said != tty || strings.ContainsRune(stderr.String(), '\x1b') {
			t.Errorf("terminal %t: %q", tty, stderr.String())
		}
	}
}
