package cli

import (
	"strconv"
	"time"

	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// remembered is what a host keeps of a shared store between two processes, so that a store that lost its data or went
// back to an older state is recognised, and held back for long enough (rule L9). Each is a hint: without it, or where
// the directory cannot be written, less is known and nothing fails.
type remembered struct {
	ttl   time.Duration
	epoch lease.Epoch
}

// longestSeen bounds what is believed of a file that others may write.
const longestSeen = 10 * time.Minute

func rememberedOf(c store.Config) (m remembered) {
	if !(address{Config: c}).shared() {
		return m
	}
	if ttl, err := time.ParseDuration(spool.Known(hostDir(), ttlOf(c))); err == nil {
		m.ttl = max(0, min(ttl, longestSeen))
	}
	if epoch, err := strconv.ParseInt(spool.Known(hostDir(), epochOf(c)), 10, 64); err == nil {
		m.epoch = max(0, min(lease.Epoch(epoch), lease.MaxEpoch))
	}
	return m
}

func ttlOf(c store.Config) string   { return knownAs(c) + " ttl" }
func epochOf(c store.Config) string { return knownAs(c) + " epoch" }

// keepTTL remembers a TTL that is longer than everybody's.
func (m remembered) keepTTL(c store.Config, s *store.Store) {
	if s.Properties.Reach == store.Fleet && s.Properties.MaxTTL > max(m.ttl, lease.DefaultTTL) {
		_ = spool.Remember(hostDir(), ttlOf(c), s.Properties.MaxTTL.String())
	}
}

// keepEpoch remembers an epoch that was not known before.
func (m remembered) keepEpoch(c store.Config, seen lease.Epoch) {
	if seen > m.epoch {
		_ = spool.Remember(hostDir(), epochOf(c), strconv.FormatInt(int64(seen), 10))
	}
}
