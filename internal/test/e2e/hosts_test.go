//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/testserver"
)

// copied is what `dibs history -o json` says of a tick or run of a host's own job.
type copied struct {
	Job, Outcome, Reason string
	HostID               string `json:"host_id"`
	Tick                 *time.Time
	Unsettled            bool
	Runs                 []struct {
		RunID   string `json:"run_id"`
		Outcome string
	}
}

func (c copied) String() string {
	at := "-"
	if c.Tick != nil {
		at = c.Tick.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s %s %s %v", c.Job, at, c.Outcome, c.Runs)
}

// told is what a store tells of a job, of each host by its id: "" is none.
func (w *world) told(args ...string) map[string][]string {
	w.t.Helper()
	var all []copied
	w.recall(&all, args...)
	by := map[string][]string{}
	for _, c := range all {
		// What nobody has settled is in no store: it is told by the clock of whoever asks.
		if c.Outcome != "started" && c.Outcome != "claimed" && c.Outcome != "running" && !c.Unsettled {
			by[c.HostID] = append(by[c.HostID], c.String())
		}
	}
	return by
}

// Jobs that two hosts run by themselves can be read from a third machine, each host's as its own directory has them,
// although the store was away meanwhile and one host was killed.
// Holds: promise 12, H1.
func TestHostJobsAreSeenFromElsewhere(t *testing.T) {
	onOwnServers(t, usualTTL, func(t *testing.T, w *world, server *testserver.Server) {
		idle := w.write("idle.json", `{"version": 1, "app": "idle", "jobs": [{"name": "idle", "schedule": "@yearly", "command": ["true"]}]}`)
		m := w.jobs(job{"j", "@every 1s", `{"starting_deadline_seconds": 1}`, []string{"true"}})
		a, b, third := w.in(t, "DIBS_DIR="+w.path("a")), w.in(t, "DIBS_DIR="+w.path("b")), w.in(t, "DIBS_DIR="+w.path("third"))
		serve := func(w *world) *process {
			p := w.start(w.command(dibsBinary, "serve", m, "--default-scope", "host"))
			p.logs("event=serving")
			return p
		}
		pa, pb := serve(a), serve(b)
		var by map[string][]string
		hosts := func(atLeast int) {
			t.Helper()
			eventually(t, patience, func() bool {
				by = third.told("app/j")
				return len(by) == 2 && !slices.ContainsFunc([]string{a.id(), b.id()}, func(id string) bool { return len(by[id]) < atLeast })
			}, func() string { return fmt.Sprintf("%d ticks of each of two hosts: %v", atLeast, by) })
		}
		hosts(3)

		server.Kill()
		pb.logs("event=mirror-delayed")
		n := len(a.ran())
		eventually(t, patience, func() bool { return len(a.ran()) > n+3 }, pa.String) // they run on
		pa.signal(syscall.SIGKILL)
		pa.wait(patience)
		pa = serve(a)
		a.dibs("run", "--scope", "host", "--key", "alone", "--", "true").exits(0, patience)
		server.Restart()
		hosts(len(a.ran()))
		stop(pa, pb)
		for _, host := range []*world{a, b} {
			var here, there []string
			same := func() bool {
				here, there = host.told("app/j", "--store", host.own())[""], third.told("app/j")[host.id()]
				here = append(here, host.told("alone", "--store", host.own())[""]...)
				there = append(there, third.told("alone")[host.id()]...)
				return slices.Equal(here, there)
			}
			if !same() { // the last copy of a server that ends has little time: another one tells the rest
				t.Logf("copied in part: %d of %d", len(there), len(here))
				p := host.start(host.command(dibsBinary, "serve", idle, "--default-scope", "host"))
				eventually(t, patience, same, func() string {
					return fmt.Sprintf("its directory tells of %d:\n%s\nthe store of %d:\n%s", len(here), strings.Join(here, "\n"), len(there), strings.Join(there, "\n"))
				})
				stop(p)
			}
			if len(here) == 0 {
				t.Errorf("the directory of %s tells of nothing", host.dirOf())
			}
		}
		if n := len(third.told("alone")[a.id()]); n != 1 {
			t.Errorf("%d runs without a tick are told, want 1", n)
		}

		// Both hosts have this machine's name, so one is meant by its id.
		third.dibs("explain", "app/j").exits(2, patience).says("--host", a.id(), b.id())
		if out := third.must("explain", "app/j", "--host", a.id()); !strings.Contains(out, "scope host") || !strings.Contains(out, `"@every 1s"`) {
			t.Errorf("explained as %s", out)
		}
		last := third.lastTick(a.id())
		if out := third.must("explain", "app/j", "--host", a.id(), "--at", last.Format(time.RFC3339)); !strings.Contains(out, ": succeeded") || !strings.Contains(out, "claimed it at") {
			t.Errorf("its last tick is explained as %s", out)
		}
		if out := third.must("job", "list", "--all"); strings.Contains(out, "host") {
			t.Errorf("the store accounts for %s", out)
		}
	})
}

// Two servers whose directories were copied from one are two hosts in the shared store: the successes of one do not
// hide the failures of the other at the same ticks.
// Holds: promise 12, H1.
func TestCopiedDirectoriesAreTwoHosts(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, s.name, s.shared(t), usualTTL)
			golden, third := w.in(t, "DIBS_DIR="+w.path("golden")), w.in(t, "DIBS_DIR="+w.path("third"))
			golden.dibs("run", "--scope", "host", "--key", "first", "--", "true").exits(0, patience)
			var servers []*process
			for name, command := range map[string]string{"a": "false", "b": "true"} {
				host := w.in(t, "DIBS_DIR="+w.path(name))
				if err := os.CopyFS(host.dirOf(), os.DirFS(golden.dirOf())); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(host.dirOf(), 0o700); err != nil {
					t.Fatal(err)
				}
				m := w.write(name+".json", `{"version": 1, "app": "app", "jobs": [{"name": "j", "schedule": "@every 1s", "command": ["`+command+`"]}]}`)
				p := host.start(host.command(dibsBinary, "serve", m, "--default-scope", "host"))
				p.logs("event=serving")
				servers = append(servers, p)
			}
			var by map[string][]string
			eventually(t, patience, func() bool {
				by = third.told("app/j")
				return len(by) == 2
			}, func() string { return fmt.Sprintf("two hosts, each with its ticks: %v", by) })
			stop(servers...)
			by = third.told("app/j")
			for id, rows := range by {
				outcomes := map[string]bool{}
				for _, row := range rows {
					outcomes[strings.Fields(row)[2]] = true
				}
				if outcomes["failed"] && outcomes["succeeded"] {
					t.Errorf("host %s has ticks of both: %v", id, rows)
				}
			}
			if said := strings.Count(servers[0].stderr()+servers[1].stderr(), "event=host-cloned"); said != 1 {
				t.Errorf("%d lines say that a host was copied, want 1", said)
			}
		})
	}
}

// dirOf is the directory of a world's own host.
func (w *world) dirOf() string {
	return strings.TrimPrefix(w.env[len(w.env)-1], "DIBS_DIR=")
}

// own is the address of that directory, for the namespace of the shared store.
func (w *world) own() string {
	u, err := url.Parse(w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	return "file://" + w.dirOf() + "?namespace=" + u.Query().Get("namespace")
}

// id is how the shared store knows a host.
func (w *world) id() string {
	w.t.Helper()
	var m struct {
		ID string `json:"installation_id"`
	}
	b, err := os.ReadFile(w.dirOf() + "/host.json")
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil || len(m.ID) < 16 {
		w.t.Fatalf("the id of the host in %s: %q, %v", w.dirOf(), m.ID, err)
	}
	return m.ID[:16]
}

// ran are the ticks of the host's job that ran, as its own directory tells.
func (w *world) ran() []string {
	w.t.Helper()
	return w.told("app/j", "--store", w.own())[""]
}

// lastTick is the latest tick of a host that succeeded, as the shared store tells.
func (w *world) lastTick(id string) time.Time {
	w.t.Helper()
	var all []copied
	w.recall(&all, "app/j")
	for _, c := range all {
		if c.HostID == id && c.Outcome == "succeeded" {
			return *c.Tick
		}
	}
	w.t.Fatalf("no tick of %s succeeded: %v", id, all)
	return time.Time{}
}

// Rule T4: a `dibs run` that finds no store keeps a note, and its tick ends as unavailable.
// Holds: promise 10, T4.
func TestATickWithoutAStoreIsUnavailable(t *testing.T) {
	onOwnServers(t, usualTTL, func(t *testing.T, w *world, server *testserver.Server) {
		const every = 12 * time.Second // so that a start is on time for 6 s
		// ends tries one tick after the other, until a run ends with a status: on a slow machine a start may be late.
		ends := func(status int) (tick time.Time) {
			var p *process
			eventually(t, 2*patience, func() bool {
				tick = time.Now().UTC().Truncate(every).Add(every)
				time.Sleep(time.Until(tick.Add(200 * time.Millisecond)))
				p = w.run("k", []string{"--once-per", "*/12 * * * * *"}, []string{"true"})
				return p.wait(patience) == status
			}, func() string { return fmt.Sprintf("exit status %d: %s", status, p) })
			return tick
		}
		ends(0)
		server.Kill()
		tick := ends(69)
		server.Restart()
		if all := w.history("k"); slices.ContainsFunc(all, func(e entry) bool { return e.Outcome == "unavailable" }) && time.Now().Before(tick.Add(every/2)) {
			t.Errorf("it is told while others can start the tick: %+v", all)
		}
		time.Sleep(time.Until(tick.Add(every/2 + time.Second)))
		var told []entry
		eventually(t, patience, func() bool {
			told = nil
			for _, e := range w.history("k") {
				if e.Tick != nil && e.Tick.Equal(tick) {
					told = append(told, e)
				}
			}
			return len(told) == 1 && told[0].Outcome == "unavailable" && strings.Contains(told[0].Reason, "seen by")
		}, func() string { return fmt.Sprintf("the tick %s is told as unavailable: %+v", tick, told) })
	})
}
