package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/lease"
)

var fleetPromises = []promise{
	{"a process is kept as it describes itself", keepProcess},
	{"the last report of a process stands", reportAgain},
	{"processes come latest first, with those of all clients", listProcesses},
	{"a process that is silent for a day is forgotten", forgetSilent},
	{"a crowd displaces who is silent, and nobody else", forgetCrowd},
	{"processes of namespaces are apart", fleetApart},
}

func (w *world) report(p fleet.Process) fleet.Process {
	w.Helper()
	w.check("Report", w.s.Fleet.Report(w.ctx, p))
	return p
}

func (w *world) processes() []fleet.Process {
	w.Helper()
	all, now, err := w.s.Fleet.Processes(w.ctx)
	w.check("Processes", err)
	if d := w.now(w.s).Sub(now); d < 0 || d > time.Minute {
		w.Errorf("Processes tells a time %s before the store's", d)
	}
	return all
}

func reporter(host string) fleet.Process { return fleet.Process{ID: lease.NewNonce(), Host: host} }

func keepProcess(w *world) {
	if all := w.processes(); len(all) > 0 {
		w.Errorf("an empty namespace has %+v", all)
	}
	offset := -1500 * time.Millisecond
	odd := "we\"b\x00\u00e9\u2028-1"
	before := w.now(w.s)
	want := w.report(fleet.Process{ID: lease.NewNonce(), Lease: lease.Ref{Key: lease.OnceKey(), Owner: lease.NewNonce(), Token: 7}, Host: odd, PID: 1 << 22, Version: "v1", App: "shop", Jobs: 3,
		ClockOffset: &offset, Draining: true, Since: w.at(0), Seen: before.Add(time.Hour)})
	all := w.processes()
	if len(all) != 1 {
		w.Fatalf("%d processes, want 1", len(all))
	}
	between(w, "Seen", before, all[0].Seen, w.now(w.s))
	sameTime(w, "Since", all[0].Since, want.Since)
	want.Since, want.Seen = all[0].Since, all[0].Seen
	if !reflect.DeepEqual(all[0], want) {
		w.Errorf("got %+v, want %+v", all[0], want)
	}
	// However much one says of itself, its record is bounded, and tells what it has no room for.
	long := reporter(strings.Repeat("\x01", 1<<20))
	long.Version, long.App = long.Host, long.Host
	for i := range 5000 {
		long.Queues = append(long.Queues, fmt.Sprintf("queue-<%d>", i))
	}
	w.report(long)
	for _, p := range w.processes() {
		if p.ID == long.ID && (len(p.Host) != 128 || len(p.Queues) < 50 || len(p.Queues)+p.MoreQueues != 5000) {
			w.Errorf("a host of %d bytes, %d queues and %d more", len(p.Host), len(p.Queues), p.MoreQueues)
		}
	}
	equal(w, "processes", len(w.processes()), 2)
}

func reportAgain(w *world) {
	p := w.report(reporter("a"))
	first := w.processes()[0].Seen
	p.Ended, p.Queues = true, []string{"mail"}
	w.until(first)
	w.report(p)
	all := w.processes()
	if len(all) != 1 || !all[0].Ended || len(all[0].Queues) != 1 || !all[0].Seen.After(first) {
		w.Errorf("got %+v", all)
	}
}

// hosts are those of processes, in their order.
func hosts(all []fleet.Process) (names []string) {
	for _, p := range all {
		names = append(names, p.Host)
	}
	return names
}

func listProcesses(w *world) {
	now, other := w.now(w.s), w.process()
	for i, host := range []string{"c", "a", "d", "b"} {
		p := reporter(host)
		p.Seen = now.Add(-time.Duration(i) * time.Hour)
		s := w.s
		if i%2 == 1 {
			s = other
		}
		w.check("Report", s.Fleet.Report(w.ctx, p))
	}
	if got := hosts(w.processes()); !slices.Equal(got, []string{"c", "a", "d", "b"}) {
		w.Errorf("got %v", got)
	}
}

func forgetSilent(w *world) {
	now := w.now(w.s)
	young := reporter("young")
	young.Seen = now.Add(-fleet.Keep + time.Minute)
	w.report(young)
	for range 2 { // the first forgets itself
		p := reporter("silent")
		p.Seen = now.Add(-fleet.Keep - time.Second)
		w.report(p)
	}
	w.report(reporter("up"))
	if got := hosts(w.processes()); !slices.Equal(got, []string{"up", "young"}) {
		w.Errorf("got %v", got)
	}
}

func forgetCrowd(w *world) {
	now := w.now(w.s)
	together(8, func(i int) {
		for j := i; j < fleet.Crowd; j += 8 {
			p := reporter("crowd")
			p.Seen = now.Add(-time.Duration(j+1) * time.Millisecond)
			if err := w.s.Fleet.Report(w.ctx, p); err != nil {
				w.Errorf("Report: %v", err)
				return
			}
		}
	})
	for i, host := range []string{"late", "silent"} {
		p := reporter(host)
		p.Seen = now.Add(-time.Minute - time.Duration(i)*fleet.Patience)
		w.report(p)
	}
	w.report(reporter("up"))
	all := w.processes()
	names := hosts(all)
	if len(all) != fleet.Crowd+2 || names[0] != "up" || names[len(names)-1] != "late" {
		w.Errorf("%d processes, the first %q, the last %q", len(all), names[0], names[len(names)-1])
	}
}

func fleetApart(w *world) {
	w.report(reporter("ours"))
	c := w.config
	c.Namespace += "x"
	c.Init = true
	theirs := w.opened(c)
	if all, _, err := theirs.Fleet.Processes(w.ctx); err != nil || len(all) > 0 {
		w.Errorf("another namespace has %+v, %v", all, err)
	}
	w.check("Report", theirs.Fleet.Report(w.ctx, reporter("theirs")))
	if got := hosts(w.processes()); !slices.Equal(got, []string{"ours"}) {
		w.Errorf("got %v", got)
	}
}
