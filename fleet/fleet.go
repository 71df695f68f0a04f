// Package fleet says which processes serve jobs and work queues, and which of them did so within the last day.
//
// Each of them reports itself to the store once a minute, and when something about it changes (Reporter). A process
// whose store forgot everything is on record again with its next report. Read returns them with what became of them.
//
// A record is for people and monitors: no claim, no lease and no task depends on it.
package fleet

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
)

const (
	// Every is how often a process reports itself.
	Every = time.Minute
	// Keep is how long a process that reports no more stays on record.
	Keep = 24 * time.Hour
	// Most is the most processes that a Store returns: the latest to report.
	Most = 10_000
	// Crowd is the number of processes beyond which those that have not reported for Patience go before Keep is over,
	// the oldest first. So a process that crashes and starts again all day long does not fill the store.
	Crowd = 1_000
	// Patience is how long a process has not reported that a crowd may displace.
	Patience = 5 * Every
	// Step bounds how many records one report deletes.
	Step = 100
)

// A Process is one that serves the jobs of an app or works queues, as it describes itself.
type Process struct {
	// ID is random. It stays the same for as long as the process serves or works.
	ID lease.Nonce `json:"id"`
	// Lease is the hold under which it claims ticks or fetches tasks. It is up while that is live.
	Lease   lease.Ref `json:"lease"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Version string    `json:"version,omitempty"` // of dibs
	// App is the app that it serves, and Jobs is how many jobs; "" for a worker.
	App  string `json:"app,omitempty"`
	Jobs int    `json:"jobs,omitempty"`
	// Queues are those that it works, with Slots tasks at the same time; none for a server. MoreQueues is how many
	// more there are than the record has room for.
	Queues     []string `json:"queues,omitempty"`
	MoreQueues int      `json:"more_queues,omitempty"`
	Slots      int      `json:"slots,omitempty"`
	// ClockOffset is how far the clock of its host is ahead of the store's; nil: it does not know.
	ClockOffset *time.Duration `json:"clock_offset,omitempty"`
	// Draining means that it takes nothing new, and ends once its work has ended. Ended means that it has ended, and
	// said so.
	Draining bool `json:"draining,omitempty"`
	Ended    bool `json:"ended,omitempty"`
	// Since is when it began, by the store's clock.
	Since time.Time `json:"since"`
	// Seen is when it reported last.
	Seen time.Time `json:"seen,omitzero"`
}

// Store is the contract that a store implements to keep processes.
//
// Neither method retries. Errors wrap lease.ErrUnavailable if the store does not answer. Both are safe for
// concurrent use.
type Store interface {
	// Report keeps p in place of what the process with this ID reported before. A Seen that is zero or lies ahead is
	// the store's now; another one is that of a report which was kept elsewhere first. It also deletes at most Step
	// records of processes that have not reported for Keep, or that Crowd displaces.
	Report(ctx context.Context, p Process) error
	// Processes returns what is kept, the latest to report first, Most at most, and the store's time. What cannot be
	// read is left out.
	Processes(ctx context.Context) ([]Process, time.Time, error)
}

// mostRecord bounds a record, in bytes, and mostText each text of it.
const (
	mostRecord = 8 << 10
	mostText   = 128
)

// Record returns p as a store keeps it: JSON, at most 8 KiB of it, without Seen.
func (p Process) Record() []byte {
	p.Seen = time.Time{}
	if y := p.Since.Year(); y < 0 || y > 9999 { // which JSON has not
		p.Since = time.Time{}
	}
	for _, s := range []*string{&p.Host, &p.Version, &p.App} {
		*s = strings.ToValidUTF8((*s)[:min(len(*s), mostText)], "")
	}
	room := mostRecord / 4
	for i, q := range p.Queues {
		if room -= len(marshal(q)) + 1; room < 0 {
			p.Queues, p.MoreQueues = p.Queues[:i], p.MoreQueues+len(p.Queues)-i
			break
		}
	}
	return marshal(p)
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("fleet: a process does not marshal: " + err.Error()) // it has neither channels nor functions
	}
	return b
}

// Forget returns the instant before which a store deletes records, the oldest first; ok is false if there is none to
// delete. oldest is the Seen of the oldest record, and crowded is that of the latest but Crowd; zero: there are fewer.
func Forget(now, oldest, crowded time.Time) (before time.Time, ok bool) {
	before = now.Add(-Keep)
	if silent := now.Add(-Patience); !crowded.IsZero() {
		if crowded.Before(silent) {
			silent = crowded.Add(time.Microsecond)
		}
		before = latest(before, silent)
	}
	return before, oldest.Before(before)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Parse reads a record that was kept at an instant. It returns the zero Process if it is none.
func Parse(record []byte, seen time.Time) (p Process) {
	if len(record) > mostRecord || json.Unmarshal(record, &p) != nil {
		return Process{}
	}
	p.Seen = seen.UTC()
	return p
}

// Readable returns the processes among those that Parse returned, at an instant of the store's clock. A clock that was
// fast, and is right again, has left instants that lie ahead: they become now. What lies ahead by more than an hour is
// left out.
func Readable(all []Process, now time.Time) []Process {
	all = slices.DeleteFunc(all, func(p Process) bool { return p.ID == lease.Nonce{} || p.Seen.After(now.Add(time.Hour)) })
	for i := range all {
		for _, at := range []*time.Time{&all[i].Seen, &all[i].Since} {
			if at.After(now) {
				*at = now
			}
		}
	}
	return all
}
