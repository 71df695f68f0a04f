//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// A victim picks processes of a host to harm, with their guardians where these are harmed as well.
type victim struct {
	name string
	pick func(r *round, procs []proc) []proc
}

// supervisors are the processes of dibs with these first arguments.
func supervisors(procs []proc, sub ...string) []proc {
	return slices.DeleteFunc(slices.Clone(procs), func(p proc) bool {
		return !slices.ContainsFunc(sub, func(s string) bool { return p.is(dibsBinary, s) })
	})
}

func guardians(procs []proc) []proc {
	return slices.DeleteFunc(slices.Clone(procs), func(p proc) bool { return p.guards() == "" })
}

func wardens(procs []proc) []proc {
	return slices.DeleteFunc(slices.Clone(procs), func(p proc) bool { return p.wards() == "" })
}

// chainOf are the wardens and the guardians of a supervisor.
func chainOf(procs []proc, of proc) []proc {
	mine := slices.DeleteFunc(wardens(procs), func(p proc) bool { return p.parent != of.pid })
	return append(mine, slices.DeleteFunc(guardians(procs), func(p proc) bool {
		return !slices.ContainsFunc(mine, func(w proc) bool { return w.pid == p.parent })
	})...)
}

func works(procs []proc) []proc {
	return slices.DeleteFunc(slices.Clone(procs), func(p proc) bool { return len(p.args) < 2 || p.args[0] != self || p.args[1] != "work" })
}

func one(r *round, of []proc) []proc {
	if len(of) == 0 {
		return nil
	}
	return []proc{of[r.rnd.IntN(len(of))]}
}

func anySupervisor(procs []proc) []proc { return supervisors(procs, "serve", "work", "run") }

var victims = []victim{
	{name: "server", pick: func(r *round, ps []proc) []proc { return one(r, supervisors(ps, "serve")) }},
	{name: "worker", pick: func(r *round, ps []proc) []proc { return one(r, supervisors(ps, "work")) }},
	{name: "dibs run", pick: func(r *round, ps []proc) []proc { return one(r, supervisors(ps, "run")) }},
	{name: "guardian", pick: func(r *round, ps []proc) []proc { return one(r, guardians(ps)) }},
	{name: "all guardians", pick: func(_ *round, ps []proc) []proc { return guardians(ps) }},
	{name: "work", pick: func(r *round, ps []proc) []proc { return one(r, works(ps)) }},
	{name: "warden", pick: func(r *round, ps []proc) []proc { return one(r, wardens(ps)) }},
	{name: "all wardens", pick: func(_ *round, ps []proc) []proc { return wardens(ps) }},
	{name: "supervisor and its guardians", pick: func(r *round, ps []proc) []proc {
		return withChain(r, ps, func(p proc) bool { return p.guards() != "" })
	}},
	{name: "supervisor and its wardens", pick: func(r *round, ps []proc) []proc {
		return withChain(r, ps, func(p proc) bool { return p.wards() != "" })
	}},
	{name: "supervisor, its wardens and guardians", pick: func(r *round, ps []proc) []proc {
		return withChain(r, ps, func(proc) bool { return true })
	}},
}

// withChain is a supervisor that guards something, and those of its chain that are wanted.
func withChain(r *round, ps []proc, wanted func(proc) bool) []proc {
	guarded := slices.DeleteFunc(anySupervisor(ps), func(p proc) bool { return !slices.ContainsFunc(chainOf(ps, p), wanted) })
	s := one(r, guarded)
	for _, of := range s {
		for _, p := range chainOf(ps, of) {
			if wanted(p) {
				s = append(s, p)
			}
		}
	}
	return s
}

// frozen are all processes of a host but its init: the host stands still, as a virtual machine that is paused.
var frozen = victim{name: "everything", pick: func(_ *round, ps []proc) []proc {
	if len(ps) == 0 {
		return nil
	}
	return ps[1:]
}}

// processKinds are the kills and the stops.
func processKinds() (kinds []kind) {
	for _, v := range victims {
		kinds = append(kinds, kill(v), stop(v))
	}
	return append(kinds, stop(frozen))
}

func kill(v victim) kind {
	return kind{name: "kill " + v.name, uses: "kill@", plan: func(r *round, h *host) plan {
		all := h.procs()
		found := v.pick(r, all)
		if len(found) == 0 {
			return plan{}
		}
		p := plan{detail: describe(found), forever: true, stages: []stage{{do: func() error {
			signalAll(syscall.SIGKILL, found...)
			return nil
		}}}}
		p.harm = harmedRuns(all, found)
		return p
	}}
}

func stop(v victim) kind {
	return kind{name: "stop " + v.name, uses: "stop@", plan: func(r *round, h *host) plan {
		all := h.procs()
		found := v.pick(r, all)
		if len(found) == 0 {
			return plan{}
		}
		p := lasting(describe(found), between(r.rnd, time.Second, 2*r.long),
			func() error { signalAll(syscall.SIGSTOP, found...); return nil },
			func() error { signalAll(syscall.SIGCONT, found...); return nil })
		p.harm = harmedRuns(all, found)
		return p
	}}
}

// harmedRuns are the runs whose supervisor is among the victims, those whose guardian is, and those whose warden is.
func harmedRuns(all, victims []proc) (h harm) {
	harmed := func(pid int) bool { return slices.ContainsFunc(victims, func(v proc) bool { return v.pid == pid }) }
	for _, w := range wardens(all) {
		if harmed(w.parent) {
			h.orphans = append(h.orphans, w.wards())
		}
		if harmed(w.pid) {
			h.unwarded = append(h.unwarded, w.wards())
		}
	}
	for _, g := range guardians(all) {
		if harmed(g.pid) {
			h.unguarded = append(h.unguarded, g.guards())
		}
	}
	return h
}

func describe(procs []proc) string {
	text := ""
	for i, p := range procs {
		switch {
		case i == 4:
			return fmt.Sprintf("%s and %d more", text, len(procs)-i)
		case p.guards() != "":
			text += fmt.Sprintf("[%d guardian of %s]", p.pid, p.guards())
		case p.wards() != "":
			text += fmt.Sprintf("[%d warden of %s]", p.pid, p.wards())
		case len(p.args) > 1:
			text += fmt.Sprintf("[%d %s]", p.pid, p.args[1])
		default:
			text += fmt.Sprintf("[%d]", p.pid)
		}
	}
	return text
}
