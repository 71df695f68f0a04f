//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A kind of fault. What it uses is a thing of which only one fault at a time may make use; with an @ it is each
// host's own.
type kind struct {
	name, uses string
	// plan says what is to happen to a host, or to the store; no stages: nothing to harm was found.
	plan func(r *round, h *host) plan
}

// A plan is a fault's stages; the last one heals it.
type plan struct {
	detail string
	stages []stage
	harm
	forever bool // they are killed, not stopped
}

// harm says which runs have lost whom: their supervisor, their guardian, their warden.
type harm struct{ orphans, unguarded, unwarded []string }

type stage struct {
	after time.Duration // since the stage before it
	do    func() error
	// alone: it waits until no other fault is left, and none begins from when it is due; quiet: none begins while it
	// is awaited. The documented bound of a clock's step holds only where nothing else is wrong.
	alone, quiet bool
}

// never is the end of what has not ended.
const never = time.Duration(1 << 62)

// A fault is one that happened.
type fault struct {
	kind        kind
	host        string
	from, until time.Duration // boot clock
	plan                      // what is left of it
	due         time.Duration // the stage before
}

func (f fault) String() string {
	until := "now"
	if f.until != never {
		until = clockText(f.until)
	}
	return fmt.Sprintf("%s %s %s (%s to %s)", f.kind.name, f.host, f.detail, clockText(f.from), until)
}

// lasting is the plan of a fault that is begun, and healed a while later.
func lasting(detail string, d time.Duration, begin, heal func() error) plan {
	return plan{detail: fmt.Sprintf("%s for %s", detail, d.Round(100*time.Millisecond)), stages: []stage{{do: begin}, {after: d, do: heal}}}
}

func between(rnd *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rnd.Int64N(int64(to-from)))
}

// harm lets the faults happen until the end of the round, one or several at a time, and returns when all are healed.
func (r *round) harm(length time.Duration) error {
	end, next := bootTime()+length, bootTime()
	var bag []kind
	var active []*fault
	for bootTime() < end || len(active) > 0 {
		for _, f := range active {
			if err := r.advance(f, len(active) == 1); err != nil {
				return fmt.Errorf("%s: %w", f, err)
			}
		}
		active = slices.DeleteFunc(active, func(f *fault) bool { return len(f.stages) == 0 })
		if now := bootTime(); now < end && now >= next && len(active) < 3 && !slices.ContainsFunc(active, (*fault).wantsPeace) {
			if len(bag) == 0 {
				bag = slices.Clone(r.kinds)
				r.rnd.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
			}
			h := r.hosts[r.rnd.IntN(len(r.hosts))]
			if i := slices.IndexFunc(bag, func(k kind) bool { return !inUse(k, h, active) }); i >= 0 {
				k := bag[i]
				bag = slices.Delete(bag, i, i+1)
				if f := r.begin(k, h); f != nil {
					active = append(active, f)
				} else {
					bag = append(bag, k) // there was nothing to harm
				}
				next = now + between(r.rnd, r.pace/4, r.pace)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	if r.cluster == nil {
		return nil
	}
	return r.cluster.revive() // as a supervisor of its own would: it may have died of a fault a while after it
}

// inUse keeps faults apart that would undo each other.
func inUse(k kind, h *host, active []*fault) bool {
	return slices.ContainsFunc(active, func(f *fault) bool { return used(k, h.name) == used(f.kind, f.host) })
}

func used(k kind, host string) string { return strings.ReplaceAll(k.uses, "@", "@"+host) }

func (r *round) begin(k kind, h *host) *fault {
	p := k.plan(r, h)
	if len(p.stages) == 0 {
		return nil
	}
	f := &fault{kind: k, plan: p, from: bootTime(), until: never, due: bootTime()}
	if strings.Contains(k.uses, "@") {
		f.host = h.name
	}
	r.faults = append(r.faults, f)
	r.say("begins: %s %s %s", k.name, f.host, f.detail)
	return f
}

// advance carries out what is due of a fault.
func (r *round) advance(f *fault, alone bool) error {
	for len(f.stages) > 0 && f.isDue() && (alone || !f.stages[0].alone) {
		s := f.stages[0]
		f.stages = f.stages[1:]
		if s.do != nil {
			if err := s.do(); err != nil {
				return err
			}
		}
		f.due = bootTime()
	}
	if len(f.stages) == 0 {
		f.until = bootTime()
		r.say("healed: %s %s", f.kind.name, f.host)
	}
	return nil
}

func (f *fault) isDue() bool { return bootTime() >= f.due+f.stages[0].after }

// wantsPeace says that nothing else is to begin now.
func (f *fault) wantsPeace() bool { return f.stages[0].quiet || f.stages[0].alone && f.isDue() }

// wireKinds are the faults between a host and the store.
func wireKinds() []kind {
	wire := func(name string, do func(h *host, on bool) error) kind {
		return kind{name: name, uses: "wire@", plan: func(r *round, h *host) plan {
			return lasting("", between(r.rnd, r.long/7, r.long),
				func() error { return do(h, true) }, func() error { return do(h, false) })
		}}
	}
	return []kind{
		wire("wire cut", func(h *host, on bool) error {
			return command("ip", "link", "set", h.wire, map[bool]string{true: "down", false: "up"}[on])
		}),
		wire("wire stalled", func(h *host, on bool) error { h.store.stall(on); return nil }),
		wire("connections refused", func(h *host, on bool) error { h.store.refuse(on); return nil }),
		wire("80 ms of delay", func(h *host, on bool) error {
			h.store.delayBy(map[bool]time.Duration{true: 40 * time.Millisecond}[on]) // each way
			return nil
		}),
	}
}

// localKinds are the faults of disks and logs.
func localKinds() []kind {
	return []kind{
		{name: "host's disk full", uses: "disk@", plan: func(r *round, h *host) plan { return diskFull(r, h.disk) }},
		{name: "logs unread", uses: "logs@", plan: func(r *round, h *host) plan {
			return lasting("", between(r.rnd, r.long/2, 2*r.long),
				func() error { h.flag(unreadFlag, true); return nil }, func() error { h.flag(unreadFlag, false); return nil })
		}},
	}
}

func diskFull(r *round, dir func() string) plan {
	heal := func() {}
	return lasting("", between(r.rnd, r.long/7, r.long), func() (err error) {
		heal, err = fill(dir())
		return err
	}, func() error { heal(); return nil })
}

// say writes a line of the round's story.
func (r *round) say(format string, args ...any) {
	line := clockText(bootTime()) + " " + fmt.Sprintf(format, args...) + "\n"
	f, err := os.OpenFile(filepath.Join(r.dir, "story.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return // the story is only told; what it is about is kept in memory
	}
	defer f.Close()
	_, _ = f.WriteString(line)
}

// clockText shows an instant of the boot clock as the time of day that it was, as the logs have it.
func clockText(at time.Duration) string {
	return time.Now().Add(at - bootTime()).UTC().Format("15:04:05.000")
}
