package aside_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
)

// deaf is a log that nobody reads until it is told to go on.
type deaf struct {
	slog.Handler
	goOn chan struct{}
}

func (d deaf) Handle(ctx context.Context, r slog.Record) error {
	<-d.goOn
	return d.Handler.Handle(ctx, r)
}

func (d deaf) WithAttrs(a []slog.Attr) slog.Handler { return deaf{d.Handler.WithAttrs(a), d.goOn} }

// Promise 27: a log that nobody reads costs no time at all. What did not fit is counted by level, where it is missing;
// what did comes in order.
func TestALogThatNobodyReadsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		goOn := make(chan struct{})
		log := aside.Logger(slog.New(deaf{slog.NewTextHandler(&out, nil), goOn})).With("who", "test")
		begun := time.Now()
		const n = 20_000
		for i := range n {
			if i%2 == 0 {
				log.Info("line", "n", i)
			} else {
				log.Warn("line", "n", i)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("it took %s", took)
		}
		aside.Flush(log)
		if took := time.Since(begun); took > aside.FlushTime {
			t.Errorf("the end took %s", took)
		}
		close(goOn)
		synctest.Wait()
		log.Info("after")
		aside.Flush(log)
		check(t, out.String(), n)
	})
}

// check compares what was written, and what is said to be missing, with the n lines and one after them.
func check(t *testing.T, text string, n int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	written, info, warn := 0, 0, 0
	for _, l := range lines[:len(lines)-1] {
		if _, rest, ok := strings.Cut(l, "event=log-dropped "); ok {
			if _, err := fmt.Sscanf(rest, "INFO=%d WARN=%d", &info, &warn); err != nil {
				t.Error(l, err)
			}
			continue
		}
		if !strings.HasSuffix(l, fmt.Sprintf("who=test n=%d", written)) {
			t.Fatalf("line %d is %q", written, l)
		}
		written++
	}
	if written < 1000 || info == 0 || warn == 0 || written+info+warn != n {
		t.Errorf("%d lines, and %d + %d missing, of %d", written, info, warn, n)
	}
	if last := lines[len(lines)-1]; !strings.Contains(last, "msg=after") {
		t.Errorf("the last line is %q", last)
	}
}

// A logger that never waits is not wrapped again, nor is one that discards.
func TestLoggerOfALogger(t *testing.T) {
	once := aside.Logger(slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)))
	nothing := slog.New(slog.DiscardHandler)
	if aside.Logger(once) != once || aside.Logger(nothing) != nothing || aside.Logger(nil) == nil {
		t.Error("wrapped again")
	}
}

// Whoever can be slowed down loses nothing to a slow reader, and waits for one that has stopped only once.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing, done := 0, 0
		q := &aside.Queue{Most: 10, Missing: func(d map[string]int) { missing += d["x"] }}
		for range 100 {
			q.DoPaced("x", 1, func() { time.Sleep(100 * time.Millisecond); done++ })
		}
		if !q.Flush(time.Minute) || done != 100 || missing != 0 {
			t.Fatalf("%d done, %d missing", done, missing)
		}
		begun := time.Now()
		held := make(chan struct{})
		q.DoPaced("x", 1, func() { <-held })
		for range 100 {
			q.DoPaced("x", 1, func() { done++ })
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %s", took)
		}
		if q.Flush(time.Minute) {
			t.Error("flushed")
		}
		close(held)
		synctest.Wait()
		q.Flush(time.Minute)
		if done+missing != 200 || missing == 0 {
			t.Errorf("%d done, %d missing", done, missing)
		}
	})
}
