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
// Holds: promise 27.
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

// Promise 24: a storm of warnings that are alike is few lines, which count all of them; others are logged each.
// Holds: promise 24.
func TestAStormIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		q := &aside.Queue{}
		log := slog.New(q.FoldingHandler(slog.NewTextHandler(&out, nil)))
		const n = 3000
		for i := range n { // ten a second
			for _, job := range []string{"j1", "j2"} {
				log.With("job", job).Warn("a hook failed", "on", "start", "run_id", fmt.Sprint("r", i), "error", fmt.Sprintf("no answer within %dms", i))
			}
			if i%10 == 0 {
				log.Info("started", "job", "j1")
			}
			time.Sleep(100 * time.Millisecond)
		}
		log.Warn("a hook failed", "job", "j1", "on", "end", "error", "no answer")
		q.Flush(time.Second)
		lines, told, started := 0, map[string]int{}, 0
		for l := range strings.Lines(out.String()) {
			switch {
			case strings.Contains(l, "msg=started"):
				started++
			case strings.Contains(l, "on=end"):
				told["end"]++
			default:
				lines++
				times := 1
				if _, text, ok := strings.Cut(l, " times="); ok {
					_, _ = fmt.Sscan(text, &times)
				}
				_, job, _ := strings.Cut(l, " job=")
				told[job[:2]] += times
			}
		}
		if lines > 14 || told["j1"] != n || told["j2"] != n || told["end"] != 1 || started != n/10 {
			t.Errorf("%d lines tell of %v; %d started", lines, told, started)
		}
	})
}

// The same of events at INFO that are of no run of the job, such as contention: the first is logged at once. What
// starts and ends, and what is of no job, is logged each time.
// Holds: promise 24.
func TestAStormOfContentionIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		q := &aside.Queue{}
		log := slog.New(q.FoldingHandler(slog.NewTextHandler(&out, nil)))
		const n = 1000
		for i := range n { // ten a second
			id := fmt.Sprint("r", i)
			log.Info("not run here", "event", "lock-contended", "app", "shop", "job", "j", "run_id", id, "holder", "host-a")
			log.Info("overlap: held by host-a", "event", "tick-skipped", "job", "shop/j", "tick", "04:15", "run_id", "")
			log.With("job", "shop/j", "run_id", id).Info("started", "event", "run-started")
			log.Info("manifest reloaded", "event", "reloaded", "jobs", 3)
			if i == 0 {
				synctest.Wait()
				if lines := strings.Count(out.String(), "\n"); lines != 4 {
					t.Errorf("at once there are %d lines: want all four\n%s", lines, out.String())
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		q.Flush(time.Second)
		lines, told := map[string]int{}, map[string]int{}
		for l := range strings.Lines(out.String()) {
			_, rest, _ := strings.Cut(l, "event=")
			event, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			times := 1
			if _, text, ok := strings.Cut(l, " times="); ok {
				_, _ = fmt.Sscan(text, &times)
			}
			lines[event]++
			told[event] += times
		}
		for event, most := range map[string]int{"lock-contended": 3, "tick-skipped": 3, "run-started": n, "reloaded": n} {
			if told[event] != n || lines[event] > most || most == n && lines[event] != n {
				t.Errorf("%d lines tell of %d %s, want %d in %d at most", lines[event], told[event], event, n, most)
			}
		}
	})
}

// A storm of more kinds than are counted at once is logged beyond that, each record: memory is bounded, nothing
// is lost.
func TestAStormOfManyKindsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		q := &aside.Queue{}
		log := slog.New(q.FoldingHandler(slog.NewTextHandler(&out, nil)))
		const kinds, each = 1500, 5
		for range each {
			for i := range kinds {
				log.Warn("a hook failed", "job", fmt.Sprint("j", i))
				synctest.Wait()
			}
		}
		q.Flush(time.Second)
		// The first thousand kinds are two lines each, the others one for each record.
		if n := strings.Count(out.String(), "\n"); n != 1000*2+500*each {
			t.Errorf("%d lines", n)
		}
	})
}
