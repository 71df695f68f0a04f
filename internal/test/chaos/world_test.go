//go:build linux

package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A jobSpec is a job of the manifest, with what the accounts need to know of it.
type jobSpec struct {
	name   string
	every  time.Duration
	work   []string
	policy map[string]any
	// shared: works of this job may overlap; host: each host has its own; rerun: a tick may be run twice.
	shared, host, rerun bool
}

func jobs() []jobSpec {
	const s = time.Second
	return []jobSpec{
		{name: "quick", every: 3 * s, work: []string{"-from", "100ms", "-until", "600ms"}},
		{name: "long", every: 5 * s, work: []string{"-from", "1s", "-until", "8s"}},
		{name: "family", every: 5 * s, work: []string{"-from", "500ms", "-until", "3s", "-family"}},
		{name: "replace", every: 6 * s, work: []string{"-from", "3s", "-until", "8s"}, policy: map[string]any{"concurrency": "Replace", "stop_grace_seconds": 1}},
		{name: "deaf", every: 10 * s, work: []string{"-from", "6s", "-until", "14s", "-deaf"}, policy: map[string]any{"concurrency": "Replace", "stop_grace_seconds": 1}},
		{name: "wait", every: 4 * s, work: []string{"-from", "1s", "-until", "5s"}, policy: map[string]any{"concurrency": "Wait"}},
		{name: "allow", every: 6 * s, work: []string{"-from", "1s", "-until", "8s"}, policy: map[string]any{"concurrency": "Allow"}, shared: true},
		{name: "rerun", every: 5 * s, work: []string{"-from", "500ms", "-until", "4s"}, policy: map[string]any{"on_crash": "rerun"}, rerun: true},
		{name: "all", every: 4 * s, work: []string{"-from", "100ms", "-until", "500ms"}, policy: map[string]any{"catch_up": "all", "catch_up_window_seconds": 90}},
		{name: "latest", every: 6 * s, work: []string{"-from", "100ms", "-until", "2s"}, policy: map[string]any{"catch_up": "latest", "catch_up_window_seconds": 120, "on_crash": "rerun"}, rerun: true},
		{name: "timeout", every: 10 * s, work: []string{"-from", "1s", "-until", "4s"}, policy: map[string]any{"timeout_seconds": 2, "stop_grace_seconds": 1}},
		{name: "own", every: 5 * s, work: []string{"-host", "-from", "100ms", "-until", "3s"}, host: true},
	}
}

// smokePeriod is the longest period of a smoke's works.
const smokePeriod = 6 * time.Second

// jobs are those of this round.
func (r *round) jobs() []jobSpec {
	return slices.DeleteFunc(jobs(), func(j jobSpec) bool { return r.isSmoke() && j.every > smokePeriod })
}

// callers are those of this round.
func (r *round) callers() []caller {
	return slices.DeleteFunc(callers(), func(c caller) bool { return r.isSmoke() && max(c.every, c.spaced) > smokePeriod })
}

const app = "chaos"

func (j jobSpec) key() string { return app + "/" + j.name }

// manifest writes the manifest of a host, whose works write to a file of its own.
func manifest(path, witness string, jobs []jobSpec) error {
	list := []any{}
	for _, j := range jobs {
		policy := map[string]any{"concurrency_scope": "global"}
		if j.host {
			policy["concurrency_scope"] = "host"
		}
		for k, v := range j.policy {
			policy[k] = v
		}
		list = append(list, map[string]any{"name": j.name, "schedule": "@every " + j.every.String(),
			"command": append([]string{self, "work", "-to", witness}, j.work...), "policy": policy})
	}
	b, err := json.Marshal(map[string]any{"version": 1, "app": app, "jobs": list})
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// A caller is what cron starts, again and again.
type caller struct {
	name, key string
	every     time.Duration
	flags     []string
	work      []string
	rerun     bool
	spaced    time.Duration // no start within this of the last one
}

func callers() []caller {
	const s = time.Second
	return []caller{
		{name: "tick", key: "cron/tick", every: 5 * s, flags: []string{"--once-per", "*/5 * * * * *", "--tz", "UTC"}, work: []string{"-from", "100ms", "-until", "2s"}},
		{name: "again", key: "cron/again", every: 10 * s, flags: []string{"--once-per", "*/10 * * * * *", "--tz", "UTC", "--on-crash", "rerun"}, work: []string{"-from", "1s", "-until", "4s"}, rerun: true},
		{name: "spaced", key: "cron/spaced", every: 6 * s, flags: []string{"--once-per", "12s", "--wait", "10s"}, work: []string{"-from", "1s", "-until", "6s"}, spaced: 12 * s},
		{name: "lock", key: "cron/lock", every: 6 * s, flags: []string{"--once-per", "none", "--wait", "20s"}, work: []string{"-from", "1s", "-until", "6s", "-family"}},
	}
}

const queueName = "q"

// services are all that a host runs, with so many servers and workers.
func services(dir, store string, copies int, cron []caller) []service {
	witness := filepath.Join(dir, "works")
	work := func(args ...string) []string { return append([]string{self, "work", "-to", witness}, args...) }
	dibs := func(args ...string) []string { return append([]string{dibsBinary}, args...) }
	var list []service
	for n := range copies {
		suffix := map[bool]string{true: fmt.Sprint(n + 1)}[n > 0]
		list = append(list,
			service{Name: "serve" + suffix, Args: dibs("serve", filepath.Join(dir, "jobs.json"), "--store", store)},
			service{Name: "work" + suffix, Args: append(dibs("work", queueName, "--slots", "2", "--store", store, "--"), work("-task", "-from", "50ms", "-until", "1s")...)})
	}
	list = append(list, []service{
		{Name: "enqueue", Every: 3 * time.Second, Args: dibs("task", "enqueue", "mail", "--queue", queueName, "--args", `{"N":"`+nonce+`"}`, "-o", "json", "--store", store)},
		{Name: "enqueue-limited", Every: 4 * time.Second, Args: dibs("task", "enqueue", "report", "--queue", queueName, "--limit-key", "one", "--args", `{"Limit":"one","N":"`+nonce+`"}`, "-o", "json", "--store", store)},
	}...)
	for _, c := range cron {
		args := append(dibs("run", "--key", c.key, "-q", "--store", store), c.flags...)
		list = append(list, service{Name: "run-" + c.name, Every: c.every, Args: append(append(args, "--"), work(c.work...)...)})
	}
	return list
}

// address is a host's end of its wire, and the test's.
func addresses(n int) (host, test string) {
	return fmt.Sprintf("198.18.%d.2", n), fmt.Sprintf("198.18.%d.1", n)
}
