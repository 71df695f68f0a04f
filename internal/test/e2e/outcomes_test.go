//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// An ending is one way in which a tick can end: the job that ends so, and what people are told.
type ending struct {
	job, outcome, reason string // reason: what it contains
	says                 string // a part of its explanation
}

// endings are the whole of promise 10: the eleven outcomes, and the closed reasons of a skip (rule T5).
var endings = []ending{
	{"succeeds", "succeeded", "", "It ended at"},
	{"fails", "failed", "exit status 3", "failed"},
	{"slow", "timed_out", "", "timed_out"},
	{"replaced", "replaced", "replaced", "for a newer one"},
	{"canceled", "canceled", "shutdown", "was stopped: shutdown"},
	{"long", "lost", "no answer from the store", "lost the lease"},
	{"crashes", "crashed", "lost its lease and did not report", "ended without a report"},
	{"overlaps", "skipped", "overlap", "the previous run was still active"},
	{"waits", "skipped", "queue_full", "another tick was already waiting for it"},
	{"superseded", "skipped", "superseded", "a newer tick asked to replace"},
	{"stuck", "skipped", "holder_stuck", "asked to stop, and did not stop"},
	{"asked", "skipped", "when", "condition (when) was false"},
	{"closed", "skipped", "window", "outside the job's window"},
	{"succeeds", "missed", "no server claimed it in time", "It was missed"},
	{"paused", "paused", "a test of outcomes", "Nobody could claim it"},
	{"succeeds", "unavailable", "seen by", "and the store did not answer"},
}

// outcomesManifest has a job for each ending that needs one of its own.
func (w *world) outcomesManifest() string {
	w.t.Helper()
	far := time.Now().UTC().Add(6 * time.Hour)
	window := fmt.Sprintf("%02d:00-%02d:59", far.Hour(), far.Hour())
	forever := work{For: 30 * time.Minute}
	type m map[string]any
	entry := func(name, schedule string, policy m, some work) m {
		return m{"name": name, "schedule": schedule, "policy": policy, "command": w.work(name, some)}
	}
	asked := entry("asked", "@every 3s", m{}, work{})
	asked["when"] = []string{"false"}
	b, err := json.Marshal(m{"version": 1, "app": "app", "jobs": []m{
		entry("succeeds", "@every 2s", m{}, work{}),
		entry("fails", "@every 3s", m{}, work{Status: 3}),
		entry("slow", "@every 5s", m{"timeout_seconds": 1, "stop_grace_seconds": 1}, forever),
		entry("replaced", "@every 7s", m{"concurrency": "Replace", "stop_grace_seconds": 1}, forever),
		entry("canceled", "@every 5s", m{}, forever),
		entry("long", "@every 5s", m{}, work{For: 30 * time.Minute, Deaf: true}),
		entry("crashes", "@every 5s", m{}, forever),
		entry("overlaps", "@every 3s", m{}, forever),
		entry("waits", "@every 3s", m{"concurrency": "Wait"}, forever),
		entry("superseded", "@every 3s", m{"concurrency": "Replace", "stop_grace_seconds": 10}, work{For: 30 * time.Minute, Deaf: true}),
		entry("stuck", "@every 45s", m{"concurrency": "Replace", "stop_grace_seconds": 1}, work{}),
		asked,
		entry("closed", "@every 3s", m{"between": []string{window}}, work{}),
		entry("paused", "@every 2s", m{}, work{}),
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.write("outcomes.json", string(b))
}

// Promise 10, each outcome and each reason by real processes, as `dibs history` and `dibs explain`
// tell it.
// Holds: promise 10.
func TestEveryOutcome(t *testing.T) {
	if !long {
		t.Skip("it takes two minutes per store: DIBS_TEST_LONG=1")
	}
	onOwnServers(t, usualTTL, func(t *testing.T, w *world, server *testserver.Server) {
		// Who holds this key will not stop for anybody, for long.
		w.run("app/stuck", []string{"--policy", "replace", "--stop-grace", "30m"}, w.work("holder", work{For: 30 * time.Minute, Deaf: true}))
		w.hears(patience, 1, "start", "holder")
		m := w.outcomesManifest()
		a, b := w.serve(m, "--drain", "1s"), w.serve(m, "--drain", "1s")
		a.logs("event=serving")
		w.must("job", "pause", "app/paused", "--reason", "a test of outcomes")
		ended := func(jobs ...string) func() bool {
			return func() bool {
				return !slices.ContainsFunc(endings, func(e ending) bool { return slices.Contains(jobs, e.job) && w.ending(e) == nil })
			}
		}
		since := func(what string) func() string {
			return func() string { return fmt.Sprintf("%s: %s\n%s", what, w.lacks(), a) }
		}
		eventually(t, muchPatience, ended("fails", "slow", "replaced", "overlaps", "waits", "superseded", "stuck", "asked", "closed", "paused"), since("all that needs a server only"))

		// The server that is at work on one of them is killed, the other one finds out.
		holder := w.holder("app/crashes").Holder.PID
		if holder != a.Process.Pid {
			a, b = b, a
		}
		a.signal(syscall.SIGKILL)
		eventually(t, muchPatience, ended("crashes"), since("a run that crashed"))

		// The store falls silent: what runs is lost, and what is due cannot be claimed.
		w.holder("app/long")
		begun := len(which(heard(t, w.dir), "start", "canceled"))
		server.Stop()
		time.Sleep(2 * w.ttl)
		server.Cont()
		eventually(t, muchPatience, ended("long"), since("a run that was lost"))
		eventually(t, muchPatience, func() bool { return w.ending(endings[15]) != nil }, since("a tick without a store"))

		// The server is told to end, and after a while without any there is another one.
		w.hears(muchPatience, begun+1, "start", "canceled")
		b.signal(syscall.SIGTERM)
		b.exits(0, muchPatience)
		time.Sleep(6 * time.Second)
		c := w.serve(m)
		eventually(t, muchPatience, func() bool { return w.lacks() == "" }, since("all"))
		c.signal(syscall.SIGKILL)
		for _, e := range endings {
			w.explained(e)
		}
	})
}

// muchPatience is for many jobs and servers at once.
const muchPatience = 5 * time.Minute

// ending is a tick that ended so. A store that has no time to answer is asked again.
func (w *world) ending(e ending) *entry {
	p := w.dibs("history", "-n", "10000", "-o", "json", "app/"+e.job)
	var all []entry
	if p.wait(muchPatience) != 0 || json.Unmarshal([]byte(p.stdout()), &all) != nil {
		return nil
	}
	for _, t := range all {
		if t.Outcome == e.outcome && strings.Contains(t.reason(), e.reason) && t.Tick != nil {
			return &t
		}
	}
	return nil
}

// reason is the tick's, or that of its run.
func (e entry) reason() string {
	if e.Reason == "" && len(e.Runs) > 0 {
		return e.Runs[len(e.Runs)-1].Reason
	}
	return e.Reason
}

// lacks lists the endings that no tick has had yet.
func (w *world) lacks() string {
	var none []string
	for _, e := range endings {
		if w.ending(e) == nil {
			none = append(none, fmt.Sprintf("%s %s (%s)", e.job, e.outcome, e.reason))
		}
	}
	return strings.Join(none, ", ")
}

// explained checks what is said of an ending: in history, and in explain, both as JSON and in words.
func (w *world) explained(e ending) {
	w.t.Helper()
	t := w.ending(e)
	if t == nil {
		w.t.Errorf("no tick of %s ended %s (%s)", e.job, e.outcome, e.reason)
		return
	}
	if ran := len(t.Runs) > 0; ran != slices.Contains([]string{"succeeded", "failed", "timed_out", "replaced", "canceled", "lost", "crashed"}, e.outcome) {
		w.t.Errorf("%s ended %s with the runs %+v", e.job, e.outcome, t.Runs)
	}
	at := t.Tick.UTC().Format(time.RFC3339)
	var x struct {
		Outcome, Reason string
		Tick            time.Time
		Explanation     []string
	}
	w.decode(&x, "explain", "app/"+e.job, "--at", at, "-o", "json")
	if x.Outcome != e.outcome || !strings.Contains(x.Reason, e.reason) || !x.Tick.Equal(*t.Tick) {
		w.t.Errorf("explain of app/%s at %s says %+v, want %s (%s)", e.job, at, x, e.outcome, e.reason)
	}
	if text := strings.Join(x.Explanation, "\n"); !strings.Contains(text, e.says) {
		w.t.Errorf("explain of app/%s at %s has no %q:\n%s", e.job, at, e.says, text)
	}
	if text := w.must("explain", "app/"+e.job, "--at", at); !strings.Contains(text, e.outcome) || !strings.Contains(text, e.says) {
		w.t.Errorf("explain of app/%s at %s has no %q and %q:\n%s", e.job, at, e.outcome, e.says, text)
	}
	if text := w.must("history", "app/"+e.job, "-n", "10000"); !strings.Contains(text, e.outcome) {
		w.t.Errorf("history of app/%s has no %s:\n%s", e.job, e.outcome, text)
	}
}
