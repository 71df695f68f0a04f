package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// Unusable is the finding of a store that could not be opened.
func Unusable(where string, err error) Finding {
	return found(Error, "store-unusable", where, cureOf(err, "Check that it is up, and that the address, the password and the permissions are right; `dibs init` prepares or upgrades it."), "The store cannot be used: %v", err)
}

// cureOf is the cure of an error that is no matter of rights or addresses, and else the usual one.
func cureOf(err error, usual string) string {
	named, ok := errors.AsType[interface {
		error
		Cure() string
	}](err)
	switch {
	case ok: // a setting of the server, say
		return named.Cure()
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), strings.Contains(err.Error(), "disk is full"):
		return "Free some space there; nothing else is needed."
	case strings.Contains(err.Error(), "failed or is full"): // SQLite does not say which
		return "Free some space there (df); if there is some, the disk failed: see the kernel's log (dmesg)."
	case errors.Is(err, syscall.EROFS):
		return "Remount the file system for writing, or name another directory."
	}
	return usual
}

// Unprepared is the finding of a store that nobody has prepared: err says how it is done.
func Unprepared(where string, err error) Finding {
	return found(Warning, "store-unprepared", where, "Prepare it before its first use; otherwise the first use prepares it and waits for one TTL.", "It has never been used: %v", err)
}

// Opened tells which store it is, and what opening it changed.
func Opened(where string, s *store.Store) []Finding {
	p := s.Properties
	all := []Finding{found(Info, "store", where, "", "Installation %s, schema %d, reaches %s, longest TTL %s.", p.InstallationID, p.Schema, reaches(p.Reach), p.MaxTTL)}
	for _, line := range s.Prepared {
		all = append(all, found(Info, "store-prepared", where, "", "Opening it changed it: %s.", line))
	}
	return all
}

func reaches(r store.Reach) string {
	if r == store.Fleet {
		return "the whole fleet"
	}
	return "this " + string(r) + " only"
}

// Weaknesses are what a store promises less of: its flaws with their cures, and what its technology
// cannot do.
func Weaknesses(where string, p store.Properties) (all []Finding) {
	flaws := map[string]bool{}
	for _, f := range p.Flaws {
		s := Warning
		if f.Breaks {
			s = Error
		}
		all = append(all, found(s, "store-setting", where, f.Cure, "%s", f.What))
		flaws[f.String()] = true
	}
	for _, w := range p.Weaker {
		if !flaws[w] {
			all = append(all, found(Info, "store-weaker", where, "", "%s", w))
		}
	}
	return all
}

// Trial acquires and releases a key that nobody else can want, and so tells whether this host may
// write to the store.
func Trial(ctx context.Context, where string, s lease.Store, ttl time.Duration) (all []Finding) {
	const check = "store-trial"
	cure := "Grant this user the right to write, or correct the address; docs/reference/stores.md has what each store needs."
	h := lease.Holder{ID: lease.NewNonce(), Command: "dibs doctor"}
	r, err := s.Acquire(ctx, []lease.AcquireRequest{{Key: lease.OnceKey(), Holder: h, TTL: ttl}})
	if err != nil {
		return []Finding{found(Error, check, where, cureOf(err, cure), "A lease cannot be acquired: %v", err)}
	}
	switch a := r.Answers[0]; a.Status {
	case lease.OK:
		released, err := s.Release(ctx, []lease.Ref{a.Record.Ref()})
		if err == nil && released.Answers[0].Status != lease.OK {
			err = fmt.Errorf("the store answered %q", released.Answers[0].Status)
		}
		if err != nil {
			return []Finding{found(Error, check, where, cureOf(err, cure), "A lease was acquired and cannot be released: %v", err)}
		}
		return []Finding{found(Info, check, where, "", "A lease was acquired and released.")}
	case lease.HeldBack:
		return []Finding{found(Warning, "held-back", where, "Wait; or, if it is new and empty, run `dibs init`.",
			"It is new or was restarted: it grants nothing for another %s, in case another server still holds a lease (rule L9).", a.Until.Sub(r.Now).Round(time.Second/10))}
	case lease.TooLong:
		return []Finding{found(Error, "ttl", where, "Run `dibs init` with the same address, which raises its max_ttl.",
			"The TTL of %s is longer than the %s that it grants (rule L9): nothing is started.", ttl, a.Until.Sub(r.Now))}
	default:
		return []Finding{found(Error, check, where, cure, "A lease cannot be acquired: the store answered %q.", a.Status)}
	}
}

// Clock measures how far this host's clock is ahead of the store's, from a few questions: the
// quickest answer is the most exact, to within uncertainty.
func Clock(ctx context.Context, s *store.Store, c clock.Clock) (offset, uncertainty time.Duration, err error) {
	for i := range 5 {
		sent, wall := c.Boot(), c.Wall()
		now, err := s.Now(ctx)
		if err != nil {
			return 0, 0, err
		}
		half := (c.Boot() - sent) / 2
		if i == 0 || half < uncertainty {
			offset, uncertainty = wall.Add(half).Sub(now), half
		}
	}
	return offset, uncertainty, nil
}

// The bounds of a clock's offset.
const (
	offsetWarning = time.Second
	offsetError   = 5 * time.Second
)

// Offset judges a clock by what is certain of its offset.
func Offset(where string, offset, uncertainty time.Duration) Finding {
	way, certain := "ahead of", max(offset.Abs()-uncertainty, 0)
	if offset < 0 {
		way = "behind"
	}
	what := fmt.Sprintf("This host's clock is %s %s the store's (±%s).", offset.Abs().Round(time.Millisecond), way, uncertainty.Round(time.Microsecond))
	cure := "Synchronise both clocks (chrony, systemd-timesyncd). dibs serve follows the store's clock; cron and the times in logs follow this one."
	switch {
	case certain > offsetError:
		return found(Error, "clock-offset", where, cure, "%s", what)
	case certain > offsetWarning:
		return found(Warning, "clock-offset", where, cure, "%s", what)
	}
	if certain == 0 {
		what = fmt.Sprintf("This host's clock agrees with the store's, as far as an answer within %s can show.", (2 * uncertainty).Round(time.Microsecond))
	}
	return found(Info, "clock-offset", where, "", "%s", what)
}

// Margin puts the arithmetic of rule L3 into words.
func Margin(where string, m lease.Margin) Finding {
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return found(Info, "margin", where, "Raise ?ttl= in the store's address if its failover takes longer.",
		"With a TTL of %s a run survives a silence of the store of %s, counted from the start of an outage (%s · %g − lost grace %s − kill %s − rpc timeout %s, less a heartbeat of %s); a dead host's key is free after %s.",
		m.TTL, ms(m.Survives()), m.TTL, 1-m.Rho, ms(m.LostGrace), ms(m.Kill), ms(m.RPCTimeout), ms(m.Heartbeat), m.TTL)
}

// Loopback judges an address that every host of a fleet would resolve to itself (rule H2). fleet says
// whether the technology reaches beyond one host, and global names jobs that rely on that.
func Loopback(where string, c store.Config, fleet bool, global []string) []Finding {
	if !fleet || c.FleetReach || !c.Loopback() {
		return nil
	}
	cure := "Name the host by an address that is the same on every server; if this one does reach the whole fleet (a proxy, a tunnel), declare it with ?reach=fleet."
	if len(global) == 0 {
		return []Finding{found(Warning, "loopback", where, cure, "The address is local to this host: with the same setting on another server, each would have its own store, and run everything.")}
	}
	return []Finding{found(Error, "loopback", where, cure, "The address is local to this host, and there are global jobs (%s): with the same setting on another server, each would run them (rule H2).", some(global))}
}

// some names the first few.
func some(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + fmt.Sprintf(" and %d more", len(names)-3)
	}
	return strings.Join(names, ", ")
}

// OnlyHost says what a declaration means that nothing can check: a directory sees no other host.
func OnlyHost(where string) []Finding {
	return []Finding{found(Info, "only-host", where, "If there is another host, name a store that both reach, or every host runs each tick of every global job.",
		"Its address declares that this is the only host, so it accepts global jobs. dibs cannot check this.")}
}
