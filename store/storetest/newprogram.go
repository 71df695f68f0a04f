package storetest

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// RunNewProgram checks that a program which begins with a store that nobody has prepared loses no tick of a job
// that is due every second, and says once, if at all, that the store holds back (rule L9). It takes the longest
// TTL and some seconds, of which it works for few: the test that calls it is parallel to others.
func RunNewProgram(t *testing.T, open Open, url string) {
	w := fallow(t, open, url)
	s := w.process()
	k, err := lease.NewKeeper(lease.Options{Store: s.Leases, Notify: s.Notify})
	w.check("NewKeeper", err)
	w.Cleanup(k.Close)
	log, self := new(logText), lease.Holder{Host: "storetest", PID: 1}
	if s.Properties.Reach == store.Host {
		self.HostID = s.Properties.InstallationID
	}
	backend := &scheduler.Backend{Name: s.URL, Keeper: k, Book: tick.NewBook(s.Ticks, k, self), Ticks: s.Ticks, History: s.History,
		Self: self, Descriptor: s.Descriptor, Detach: s.Detach, Log: slog.New(slog.NewTextHandler(log, nil))}
	j := &scheduler.Job{Spec: job.Spec{App: "app", Name: "j", Schedules: []string{"@every 1s"}, Timezone: "UTC", Policy: job.DefaultPolicy(true)},
		Target: run.Func(func(context.Context, run.Call) error { return nil })}
	j.Spec.Policy.StartingDeadline = 10 * time.Second // below the hold-back, and far beyond what a busy machine is late
	server := scheduler.NewServer(backend, "app")
	first := w.now(s)
	w.check("Load", server.Load(w.ctx, []*scheduler.Job{j}))
	ctx, stop := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, 10*time.Second) }()
	defer func() {
		stop()
		w.check("Run", <-ended)
	}()

	until := first.Add(5 * time.Second)
	if hold := s.Properties.HoldUntil; hold.After(until) {
		until = hold
	}
	rows := w.accounted(s, j.Spec.Key(), until)
	at, _ := j.Set().Next(first.Add(time.Second)) // the job may have been registered within the first one
	for n := 0; at.Before(until); n++ {
		switch r, ok := rows[at]; {
		case !ok:
			w.Errorf("the tick %s has no outcome", at)
		case r.Outcome == run.Succeeded, r.Outcome == run.Skipped && r.Reason == run.ReasonOverlap:
		default:
			w.Errorf("the tick %s ended %s: %s", at, r.Outcome, r.Reason)
		}
		at, _ = j.Set().Next(at)
	}
	w.onlySays(log.String(), !s.Properties.HoldUntil.IsZero())
}

// accounted waits until all ticks of a job before an instant have their outcome.
func (w *world) accounted(s *store.Store, name string, until time.Time) map[time.Time]tick.Tick {
	w.Helper()
	for {
		now := w.now(s)
		ticks, err := s.History.Ticks(w.ctx, history.Query{Job: name, Limit: 1000})
		w.check("Ticks", err)
		rows, open := map[time.Time]tick.Tick{}, false
		last := time.Time{}
		for _, r := range ticks {
			rows[r.At] = r
			open = open || r.State != tick.Closed && r.At.Before(until)
			if r.At.After(last) {
				last = r.At
			}
		}
		if now.After(until.Add(2*time.Second)) && !open && !last.Before(until) {
			return rows
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// onlySays checks that a log has nothing above INFO but the one line about the hold-back, if there was one.
func (w *world) onlySays(log string, held bool) {
	w.Helper()
	said := 0
	for line := range strings.Lines(log) {
		switch {
		case strings.Contains(line, "level=INFO"), strings.Contains(line, "level=DEBUG"):
		case strings.Contains(line, "event=previous-unknown"): // the machine was slow
		case strings.Contains(line, "event=held-back"):
			said++
		default:
			w.Errorf("the log says %s", line)
		}
	}
	want := 0
	if held {
		want = 1
	}
	equal(w, "lines about the hold-back", said, want)
}

// logText is a log that is read while others write.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
