package mirror_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store/memory"
)

// clone is another host whose directory was copied from h's: the id, and what the directory remembers.
func (h *host) clone(name, boot string, shared *memory.Backend) *host {
	c := newHost(h.t, name, shared)
	c.backend.Self.HostID, c.backend.Self.BootID = h.backend.Self.HostID, boot
	c.cursor.Position = h.cursor.Position
	c.cursor.name, _ = h.cursor.LoadName()
	return c
}

// reports has a host report before its directory is copied: never, once, or once more without an answer.
func (h *host) reports(how string) {
	h.t.Helper()
	if how != "never" {
		h.pass()
	}
	if how == "without an answer" {
		time.Sleep(time.Minute)
		h.net.late.Store(true)
		_ = h.Pass(h.t.Context())
	}
}

// follow copies until the test ends.
func (h *host) follow() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	h.t.Cleanup(func() { cancel(); <-done })
}

// ids are those of the hosts that a store knows, by name.
func ids(h *host) map[string]string {
	h.t.Helper()
	hosts, err := mirror.Hosts(h.t.Context(), h.shared)
	if err != nil {
		h.t.Fatal(err)
	}
	found := map[string]string{}
	for _, k := range hosts {
		found[k.Name] += k.ID
	}
	return found
}

// Two hosts whose directories are copies of one are two hosts in the shared store, whichever of them came first, and
// although one job ran on both at the same instants.
// Holds: promise 12, H1.
func TestCopiesOfADirectoryAreTwoHosts(t *testing.T) {
	for _, reported := range []string{"never", "before it was copied", "without an answer", "and goes on"} {
		for _, gap := range []time.Duration{0, 7 * time.Second, time.Hour} {
			t.Run(fmt.Sprintf("the original reported %s/%s", reported, gap), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					shared := memory.New(memory.Options{})
					golden := newHost(t, "golden", shared)
					golden.reports(reported)
					a, b := golden.clone("a", "boot-a", shared), golden.clone("b", "boot-b", shared)
					if reported == "and goes on" {
						golden.pass()
						golden.follow()
					}
					for i, h := range []*host{a, b} {
						stop := h.serve(newJob(t, "@every 7s", time.Duration(1+i)*time.Second))
						t.Cleanup(stop)
						h.follow()
						time.Sleep(gap)
					}
					time.Sleep(5 * time.Minute)
					for _, h := range []*host{a, b} {
						if seen := time.Since(h.known().Seen); seen > time.Minute {
							t.Errorf("%s was last heard of %s ago", h.backend.Self.Host, seen)
						}
						rows := told(t, h.known().View(h.shared), "app/j")
						if len(rows.Runs) < 30 || len(rows.Ticks) < 30 {
							t.Errorf("%s: %d runs and %d ticks", h.backend.Self.Host, len(rows.Runs), len(rows.Ticks))
						}
						for _, r := range rows.Runs {
							if took := r.Ended.Sub(r.Started); took.Round(time.Second) != map[string]time.Duration{"a": time.Second, "b": 2 * time.Second}[h.backend.Self.Host] {
								t.Errorf("among the runs of %s is one of %s", h.backend.Self.Host, took)
							}
						}
					}
				})
			})
		}
	}
}

// What is copied from one job at one instant stays with its host even if both begin at the same moment.
// Holds: promise 12, H1.
func TestNoTickOfACopyIsTakenForTheOthers(t *testing.T) {
	for name, names := range map[string][3]string{"of three names": {"a", "b", "c"}, "of one name": {"a", "a", "a"}} {
		for _, reported := range []string{"never", "once", "without an answer"} {
			t.Run(name+"/the original reported "+reported, func(t *testing.T) { apart(t, names, reported) })
		}
	}
}

func apart(t *testing.T, names [3]string, reported string) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New(memory.Options{})
		golden := newHost(t, "golden", shared)
		golden.reports(reported)
		var hosts []*host
		for _, name := range names {
			hosts = append(hosts, golden.clone(name, "", shared))
		}
		var stops []func()
		for i, h := range hosts {
			stops = append(stops, h.serve(newJob(t, "@every 7s", time.Duration(1+i)*time.Second)))
		}
		for range 20 {
			time.Sleep(20 * time.Second)
			for _, h := range hosts {
				h.pass()
			}
			slices.Reverse(hosts)
		}
		for _, stop := range stops {
			stop()
		}
		for _, h := range hosts {
			h.pass()
			h.same("app/j")
		}
	})
}

// A host that is restarted, renamed or moved with its directory stays the same host, also after heartbeats that were
// not answered or came late, and after the shared store has lost all.
// Holds: promise 12, H1.
func TestAHostThatMovesStaysTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New(memory.Options{})
		h := newHost(t, "name-0", shared)
		h.pass()
		id := h.known().ID
		for i := range 40 {
			if i%2 == 0 {
				h.backend.Self.Host = fmt.Sprint("name-", i)
			}
			if i%3 == 0 {
				h.backend.Self.BootID = fmt.Sprint("boot-", i)
			}
			*h.Mirror = mirror.Mirror{From: h.From, To: h.To, Store: h.Store, Cursor: h.cursor} // another process
			h.net.late.Store(i%5 == 0)
			_ = h.Pass(t.Context())
			if i%4 == 0 {
				h.net.late.Store(false)
				_ = h.Pass(t.Context())
			}
			time.Sleep(time.Duration(i%3) * 4 * time.Second)
			h.net.late.Store(false)
			h.pass()
			if got := ids(h); len(got) != 1 || got[h.backend.Self.Host] != id {
				t.Fatalf("round %d: the hosts are %v, want %s alone", i, got, id)
			}
			time.Sleep(time.Duration(i%2) * time.Minute)
			h.pass()
		}
	})
}

// A clone says so, once.
func TestACopySaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New(memory.Options{})
		golden := newHost(t, "golden", shared)
		golden.pass()
		c := golden.clone("c", "", shared)
		time.Sleep(time.Minute)
		golden.pass()
		var log strings.Builder
		c.backend.Log = logTo(&log)
		for range 5 {
			c.pass()
			time.Sleep(time.Minute)
			golden.pass()
		}
		if n := strings.Count(log.String(), "host-cloned"); n != 1 || !strings.Contains(log.String(), "was="+golden.known().ID+" id="+c.known().ID) {
			t.Errorf("it said so %d times:\n%s", n, &log)
		}
	})
}

// A directory's files keep its name beside the cursor.
func TestTheNameIsKept(t *testing.T) {
	f := mirror.FileIn(t.TempDir(), "store", "ns")
	if n, err := f.LoadName(); err != nil || n != (mirror.Name{}) {
		t.Fatal(n, err)
	}
	want := mirror.Name{ID: lease.NewNonce().String(), From: time.Unix(1, 2000).UTC(), To: time.Unix(3, 4000).UTC()}
	if err := f.SaveName(want); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(mirror.Position{Until: time.Unix(5, 0).UTC()}); err != nil {
		t.Fatal(err)
	}
	if n, err := f.LoadName(); err != nil || n != want {
		t.Errorf("%v, %v; want %v", n, err, want)
	}
	if p, err := f.Load(); err != nil || !p.Until.Equal(time.Unix(5, 0)) {
		t.Errorf("%v, %v", p, err)
	}
}

func logTo(b *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
