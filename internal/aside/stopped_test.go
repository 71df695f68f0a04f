//go:build linux

package aside

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const stoppedEnv = "DIBS_TEST_ASIDE_STOPPED"

// A process that gets no time for longer than its patience, as on a busy machine, takes no reader for stalled:
// one that reads gets all of it.
func TestWhoIsStoppedDropsNothing(t *testing.T) {
	if os.Getenv(stoppedEnv) != "" {
		printMuch()
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWhoIsStoppedDropsNothing$")
	cmd.Env = append(os.Environ(), stoppedEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan() // it has begun
	ended := make(chan string)
	go func() {
		lines.Scan()
		ended <- lines.Text()
	}()
	for {
		select {
		case said := <-ended:
			if err := cmd.Wait(); err != nil || !strings.HasSuffix(said, " 0 dropped") {
				t.Errorf("%s, %v", said, err)
			}
			return
		case <-time.After(50 * time.Millisecond):
			_ = cmd.Process.Signal(syscall.SIGSTOP)
			time.Sleep(2 * defaultPatience)
			_ = cmd.Process.Signal(syscall.SIGCONT)
		}
	}
}

// printMuch fills a queue for a while, and says what was dropped.
func printMuch() {
	fmt.Println("begun")
	q, dropped := &Queue{Most: 10}, 0
	const n = 200
	for range n {
		if !q.DoPaced("lines", 1, func() { time.Sleep(time.Millisecond) }) {
			dropped++
		}
	}
	fmt.Printf("of %d, %d dropped\n", n, dropped)
	os.Exit(0)
}
