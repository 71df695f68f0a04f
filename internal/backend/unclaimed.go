package backend

import (
	"cmp"
	"errors"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/scheduler"
)

// NoteUnclaimed records in a directory of this host that the host was there for a tick but the store was not, so
// that the tick ends as unavailable rather than missed (rule T4). Without the store, the tick is the one that is due
// by this host's own clock; a wrong clock may name another tick, or none, and the note is delivered only once nobody
// can start that tick any more.
func (a Address) NoteUnclaimed(dir string, j *scheduler.Job, key string, at time.Time, cause error) {
	if dir == "" || !errors.Is(cause, lease.ErrUnavailable) {
		return
	}
	if at.IsZero() {
		var ok bool
		now := clock.System.Wall()
		if at, ok = j.Due(now, now); !ok {
			return
		}
	}
	id := cmp.Or(a.Expect, spool.Known(dir, a.knownAs()))
	if id == "" {
		return // it was never used from here: there is nobody to tell
	}
	// If the note cannot be kept, the tick is missed, as without a witness.
	_ = spool.In(dir, id, a.Namespace).Put(scheduler.Item{Unavailable: &scheduler.Unclaimed{Job: key, At: at, Until: j.StartBy(at)}})
}

// Remember records in a directory of this host which store was found at an address, for a time when it does not
// answer.
func (a Address) Remember(dir string, b *Backend) {
	if dir != "" {
		_ = spool.Remember(dir, a.knownAs(), b.Store.Properties.InstallationID)
	}
}

// knownAs returns the address in the form in which a store is recognised again.
func (a Address) knownAs() string { return a.String() + " " + a.Namespace }
