package hook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store/memory"
)

// receiver is the other end of pings and webhooks, in virtual time.
type receiver struct {
	mu     sync.Mutex
	got    []string // METHOD path?query
	answer func(n int, r *http.Request) (status int, err error)
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.got = append(r.got, req.URL.RequestURI())
	n, answer := len(r.got), r.answer
	r.mu.Unlock()
	status := 200
	if answer != nil {
		var err error
		if status, err = answer(n, req); err != nil {
			return nil, err
		}
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
}

func (r *receiver) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, " ")
}

// virtual is a Runner whose requests go to a receiver; its events are kept.
func virtual(t *testing.T, h history.Store, hooks ...job.Hook) (*Runner, *receiver, *[]history.Event) {
	t.Helper()
	to, events := &receiver{}, &[]history.Event{}
	client = &http.Client{Transport: to}
	t.Cleanup(func() { client = nil })
	r := New(Options{History: h, Log: slog.New(slog.DiscardHandler), Event: func(_ context.Context, e history.Event) {
		to.mu.Lock()
		defer to.mu.Unlock()
		*events = append(*events, e)
	}})
	r.Set(&job.Spec{App: "app", Name: "j", Hooks: hooks}, nil, nil)
	return r, to, events
}

func ping(on ...job.HookEvent) job.Hook {
	return job.Hook{On: on, Ping: &job.Request{URL: "https://hc.example/key/{app}-{job}?create=1"}, TooLong: time.Minute, Timeout: 5 * time.Second}
}

func closeWithin(r *Runner, bound time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	r.Close(ctx)
}

func happened(on job.HookEvent, id string) scheduler.Happening {
	return scheduler.Happening{On: on, Job: "app/j", Tick: time.Now(), Run: run.Record{ID: id, Job: "app/j", Ended: time.Now()}}
}

func TestTheConventionOfPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to, _ := virtual(t, memory.New(memory.Options{}).Store().History, ping(job.OnStart, job.OnSuccess, job.OnFailure, job.OnSkip, job.OnMiss))
		for _, on := range []job.HookEvent{job.OnStart, job.OnSuccess, job.OnFailure, job.OnSkip} {
			r.Tell(happened(on, "1"))
		}
		r.Tell(happened(job.OnMiss, ""))
		r.Tell(scheduler.Happening{On: job.OnStart, Job: "app/another"})
		closeWithin(r, time.Minute)
		r.Tell(happened(job.OnStart, "2")) // after the end
		const key = "/key/app-j"
		if want := key + "/start?create=1&rid=1 " + key + "?create=1&rid=1 " + key + "/fail?create=1&rid=1 " + key + "/log?create=1&rid=1 " + key + "/log?create=1"; to.all() != want {
			t.Errorf("got  %s\nwant %s", to.all(), want)
		}
	})
}

// A receiver that hangs delays nobody but what waits behind it, and is given up at the end.
// Holds: promise 24.
func TestAHangingHookIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to, events := virtual(t, nil, ping(job.OnStart, job.OnSuccess))
		to.answer = func(_ int, req *http.Request) (int, error) { <-req.Context().Done(); return 0, req.Context().Err() }
		begun := time.Now()
		for range 2 * maxWaiting {
			r.Tell(happened(job.OnStart, "1"))
		}
		if d := time.Since(begun); d > 0 {
			t.Errorf("telling took %s", d)
		}
		time.Sleep(3*5*time.Second + pauses[0] + pauses[1] + time.Second) // the first one's three attempts
		to.mu.Lock()
		left := 0
		for _, e := range *events {
			if strings.Contains(e.Reason, "dropped:") {
				left++
			}
		}
		if n := len(to.got); n != 4 || left < maxWaiting-1 || len(*events) != left+1 {
			t.Errorf("%d attempts, %d dropped of %d events", n, left, len(*events))
		}
		last := (*events)[len(*events)-1]
		to.mu.Unlock()
		if last.Kind != "hook-failed" || last.Job != "app/j" || last.RunID != "1" || !strings.Contains(last.Reason, "no answer within 5s (attempt 3)") || strings.Contains(last.Reason, "key") {
			t.Errorf("%+v", last)
		}
		begun = time.Now()
		closeWithin(r, 20*time.Second)
		if d := time.Since(begun); d != 20*time.Second {
			t.Errorf("closing took %s", d)
		}
	})
}

// What may do better is tried again, with a bound; a refusal is not.
func TestAttemptsToTell(t *testing.T) {
	for _, c := range []struct {
		statuses []int // 0: no answer
		attempts int
		failed   bool
	}{{[]int{200}, 1, false}, {[]int{500, 0, 204}, 3, false}, {[]int{429, 408, 503}, 3, true}, {[]int{0, 0, 0}, 3, true}, {[]int{404}, 1, true}, {[]int{302}, 1, true}} {
		synctest.Test(t, func(t *testing.T) {
			r, to, events := virtual(t, nil, ping(job.OnFailure))
			to.answer = func(n int, _ *http.Request) (int, error) {
				if s := c.statuses[n-1]; s != 0 {
					return s, nil
				}
				return 0, errors.New("refused")
			}
			r.Tell(happened(job.OnFailure, "1"))
			closeWithin(r, time.Minute)
			if len(to.got) != c.attempts || (len(*events) == 1) != c.failed {
				t.Errorf("%v: %d attempts, %+v", c.statuses, len(to.got), *events)
			}
		})
	}
}

// too_long is told while the run goes on, once, and not of one that is over in time.
// Holds: promise 24.
func TestTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, to, _ := virtual(t, nil, ping(job.OnTooLong), ping(job.OnStart))
		for _, takes := range []time.Duration{59 * time.Second, time.Hour} {
			h, over := happened(job.OnStart, takes.String()), make(chan struct{})
			h.Over = over
			r.Tell(h)
			time.Sleep(min(takes, 61*time.Second))
			if takes > time.Minute && !strings.Contains(to.all(), "/log?create=1&rid=1h0m0s") {
				t.Errorf("after a minute: %s", to.all())
			}
			time.Sleep(max(takes-61*time.Second, 0))
			close(over)
		}
		r.Tell(happened(job.OnStart, "left")) // still running at the end
		closeWithin(r, time.Minute)
		if n := strings.Count(to.all(), "/log"); n != 1 {
			t.Errorf("told %d times: %s", n, to.all())
		}
	})
}

// records is a history of these runs.
type records struct {
	history.Store
	all []run.Record
	err error
}

func (r *records) Runs(context.Context, history.Query) ([]run.Record, error) { return r.all, r.err }

// A recovery is the first success after a failure, whatever lay between that was neither.
// Holds: promise 24.
func TestRecovery(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	of := func(id string, ended int, o run.Outcome) run.Record {
		return run.Record{ID: id, Outcome: o, Ended: at(ended)}
	}
	for name, c := range map[string]struct {
		before []run.Record
		want   bool
	}{
		"the first one ever":            {nil, false},
		"after a success":               {[]run.Record{of("a", 1, run.Failed), of("b", 2, run.Succeeded)}, false},
		"after a failure":               {[]run.Record{of("a", 1, run.Succeeded), of("b", 2, run.Failed)}, true},
		"after a crash":                 {[]run.Record{of("b", 2, run.Crashed), of("a", 1, run.Succeeded)}, true},
		"a replaced one is neither":     {[]run.Record{of("c", 3, run.Replaced), of("b", 2, run.TimedOut), of("a", 1, run.Succeeded)}, true},
		"one that runs is neither":      {[]run.Record{{ID: "c"}, of("b", 2, run.Lost)}, true},
		"what ended later":              {[]run.Record{of("c", 9, run.Failed), of("b", 2, run.Succeeded)}, false},
		"what ended later hides none":   {[]run.Record{of("c", 9, run.Succeeded), of("b", 2, run.Failed), of("a", 1, run.Succeeded)}, true},
		"a failure at the same instant": {[]run.Record{of("b", 5, run.Failed), of("a", 4, run.Succeeded)}, true},
		"another recovered from before": {[]run.Record{of("a", 1, run.Failed), of("b", 3, run.Failed), of("c", 4, run.Succeeded)}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &records{all: append(c.before, of("me", 5, run.Succeeded))}
			r, to, events := virtual(t, h, ping(job.OnRecovery))
			told := happened(job.OnSuccess, "me")
			told.Run.Ended = at(5)
			r.Tell(told)
			closeWithin(r, time.Minute)
			if (len(to.got) == 1) != c.want || len(*events) > 0 {
				t.Errorf("%s: told %q, %+v", name, to.all(), *events)
			}
		})
	}
	for name, c := range map[string]struct {
		since []run.Record
		want  bool
	}{
		"after it was taken for crashed": {[]run.Record{of("a", 1, run.Succeeded)}, true},
		"another one failed since":       {[]run.Record{of("a", 6, run.Failed)}, false},
		"another one succeeded since":    {[]run.Record{of("a", 6, run.Succeeded)}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, to, _ := virtual(t, &records{all: append(c.since, of("me", 5, run.Succeeded))}, ping(job.OnRecovery))
			told := happened(job.OnSuccess, "me")
			told.Run.Ended, told.Amends = at(5), run.Crashed
			r.Tell(told)
			closeWithin(r, time.Minute)
			if (len(to.got) == 1) != c.want {
				t.Errorf("%s: told %q", name, to.all())
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r, to, events := virtual(t, &records{err: errors.New("down")}, ping(job.OnRecovery, job.OnSuccess))
		r.Tell(happened(job.OnSuccess, "me"))
		closeWithin(r, time.Minute)
		if len(to.got) != 1 || len(*events) != 1 {
			t.Errorf("told %q, %+v", to.all(), *events)
		}
	})
}
