package output

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// log is a reader of an output, which may stall.
type log struct {
	sync.Mutex
	bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

func TestLinesOfARun(t *testing.T) {
	var out log
	var kept []byte
	c := &Captured{To: NewPrinter(&out), Prefix: []byte("j | "), Keep: func(b []byte) { kept = b }}
	fmt.Fprint(c, "one\ntw")
	fmt.Fprint(c, "o\nthree")
	_ = c.Close()
	if got := out.String(); got != "j | one\nj | two\nj | three\n" {
		t.Errorf("%q", got)
	}
	if string(kept) != "one\ntwo\nthree" {
		t.Errorf("kept %q", kept)
	}
}

// A healthy output loses nothing, however much there is.
func TestABurstIsPrintedWhole(t *testing.T) {
	var out log
	c := &Captured{To: NewPrinter(&out), Keep: func([]byte) {}}
	line := strings.Repeat("x", 999) + "\n"
	const n = 4 * maxQueued / 1000
	for range n {
		fmt.Fprint(c, line)
	}
	_ = c.Close()
	if got := out.Len(); got != n*1000 {
		t.Errorf("%d bytes of %d", got, n*1000)
	}
}

// Nobody reads the standard output: the work goes on, its end is kept, and later it is said what
// is missing, where it is missing.
func TestAStalledOutputStopsNobody(t *testing.T) {
	var out log
	out.Lock()
	var kept []byte
	p := NewPrinter(&out)
	line := strings.Repeat("x", 999) + "\n"
	const n = 4 * maxQueued / 1000
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := &Captured{To: p, Keep: func(b []byte) { kept = b }}
		for range n {
			fmt.Fprint(c, line)
		}
		fmt.Fprint(c, "the end")
		_ = c.Close()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the run waits for a reader")
	}
	if !bytes.HasSuffix(kept, []byte("x\nthe end")) || len(kept) != MaxKept {
		t.Errorf("kept %d bytes", len(kept))
	}
	out.Unlock()
	for end := time.Now().Add(30 * time.Second); !p.queue.Flush(time.Second); { // while it counts as stalled, at once
		if time.Now().After(end) {
			t.Fatal("the Printer does not go on")
		}
		time.Sleep(time.Millisecond)
	}
	p.Print([]byte("after\n"))
	p.Flush()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	printed, missing := 0, 0
	for _, l := range lines {
		var n int
		if _, err := fmt.Sscanf(l, "dibs: %d lines are missing here", &n); err == nil {
			missing += n
		} else {
			printed++
		}
	}
	if missing == 0 || printed+missing != n+2 || lines[len(lines)-1] != "after" {
		t.Errorf("%d lines printed and %d missing of %d; the last is %q", printed, missing, n+2, lines[len(lines)-1])
	}
}

// A process's own log lines are counted when they come in storms (promise 24).
// Holds: promise 24.
func TestAProcessCountsAStorm(t *testing.T) {
	var out log
	p := NewPrinter(&out)
	l := TextLogger(p, slog.LevelInfo)
	const n = 500
	for range n {
		l.Warn("a hook failed", "job", "j")
	}
	p.Flush()
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, fmt.Sprint("times=", n-1)) {
		t.Errorf("%s", got)
	}
}
