package backend

import (
	"strconv"
	"time"

	"github.com/dibs-run/dibs/internal/spool"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// remembered is what a host keeps about a shared store between two processes, so that a store that lost its data or
// went back to an older state is recognised, and held back for long enough (rule L9). Each item is a hint: without
// it, or if the directory cannot be written, less is known and nothing fails.
type remembered struct {
	dir   string
	as    string
	ttl   time.Duration
	epoch lease.Epoch
}

// longestSeen bounds what is trusted from a file that others may write.
const longestSeen = 10 * time.Minute

func (a Address) remembered(dir string) (m remembered) {
	m.dir, m.as = dir, a.knownAs()
	if dir == "" || !a.Fleet {
		return m
	}
	if ttl, err := time.ParseDuration(spool.Known(dir, ttlOf(m.as))); err == nil {
		m.ttl = max(0, min(ttl, longestSeen))
	}
	if epoch, err := strconv.ParseInt(spool.Known(dir, epochOf(m.as)), 10, 64); err == nil {
		m.epoch = max(0, min(lease.Epoch(epoch), lease.MaxEpoch))
	}
	return m
}

func ttlOf(known string) string   { return known + " ttl" }
func epochOf(known string) string { return known + " epoch" }

// keepTTL remembers a TTL that is longer than everybody's.
func (m remembered) keepTTL(s *store.Store) {
	if m.dir != "" && s.Properties.Reach == store.Fleet && s.Properties.MaxTTL > max(m.ttl, lease.DefaultTTL) {
		_ = spool.Remember(m.dir, ttlOf(m.as), s.Properties.MaxTTL.String())
	}
}

// keepEpoch remembers an epoch that was not known before.
func (m remembered) keepEpoch(seen lease.Epoch) {
	if m.dir == "" {
		return
	}
	if seen > m.epoch {
		_ = spool.Remember(m.dir, epochOf(m.as), strconv.FormatInt(int64(seen), 10))
	}
}
