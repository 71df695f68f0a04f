package cli

import (
	"cmp"
	"errors"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
)

// noteUnclaimed keeps on this host that it was there for a tick and the store was not, so that the
// tick ends as unavailable rather than missed (rule T4). Without the store the tick is the one that
// is due by this host's own clock; a wrong clock names one that others have, or none, and the note
// is told only once nobody can start that tick any more.
func noteUnclaimed(c store.Config, j *scheduler.Job, key string, at time.Time, cause error) {
	if !errors.Is(cause, lease.ErrUnavailable) {
		return
	}
	if at.IsZero() {
		var ok bool
		now := clock.System.Wall()
		if at, ok = j.Due(now, now); !ok {
			return
		}
	}
	id := cmp.Or(c.Expect, spool.Known(hostDir(), knownAs(c)))
	if id == "" {
		return // it was never used from here: there is nobody to tell
	}
	// A note that cannot be kept leaves the tick missed, as it would be without a witness.
	_ = spool.In(hostDir(), id, c.Namespace).Put(scheduler.Item{Unavailable: &scheduler.Unclaimed{Job: key, At: at, Until: j.StartBy(at)}})
}

// remember keeps which store it is, for a time when it does not answer.
func remember(p *opened) {
	_ = spool.Remember(hostDir(), knownAs(p.config), p.store.Properties.InstallationID)
}

// knownAs is an address for the purpose of knowing a store again.
func knownAs(c store.Config) string { return c.String() + " " + c.Namespace }
