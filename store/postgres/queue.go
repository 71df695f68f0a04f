package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// tasks is the driver.Store of one namespace, and admin its driver.Admin.
type (
	tasks struct {
		db    *db
		ns    string
		names *names
		watch *listener
	}
	admin struct{ tasks }
)

func newTasks(d *db, ns string, watch *listener) tasks {
	return tasks{db: d, ns: ns, names: newNames(ns), watch: watch}
}

// lockWait is how long an enqueue or an operation waits for other transactions, in all (rule Q2).
const lockWait = 2 * time.Second

// Bounds of one step, whatever there is: the most rows that it changes (as queue_bound of the migration has
// it), and how many tasks where each may cost more than its own row, such as the look at its limit; and the
// most rows that it reads.
const (
	bound  = 1000
	costly = 250
	looked = 20_000
)

// The numbers of states as rows have them: available ones have three, see the migration.
const (
	scheduled = 0
	running   = 5
	retryable = 6
	succeeded = 10
)

var states = map[int]task.State{scheduled: task.Scheduled, 1: task.Available, 2: task.Available, 3: task.Available,
	4: task.Blocked, running: task.Running, retryable: task.Retryable, succeeded: task.Succeeded, 11: task.Failed,
	12: task.Discarded, 13: task.Canceled, 14: task.Crashed}

// numbers are those of some states.
func numbers(of []task.State) (n []int16) {
	if len(of) > 0 {
		n = []int16{} // what is no state selects nothing; nil selects everything
	}
	for _, want := range of {
		for number, s := range states {
			if s == want {
				n = append(n, int16(number))
			}
		}
	}
	return n
}

// The order within a queue is one number, sort_key: see the migration.
const (
	rankShift = 53
	ranks     = task.MaxPriority - task.MinPriority + 1
)

func rank(priority int) int32 { return int32(ranks + task.MaxPriority - priority) }

func fromSortKey(key int64) (priority int, front bool) {
	r := int(key >> rankShift)
	return task.MaxPriority - r%ranks, r < ranks
}

// hashed is a key's hash as this store keeps it, with the namespace in it.
func (t tasks) hashed(h task.Hash) pgtype.UUID {
	b := append(make([]byte, 0, 128), t.ns...)
	sum := sha256.Sum256(append(append(b, 0), h[:]...))
	u := pgtype.UUID{Valid: true}
	copy(u.Bytes[:], sum[:])
	return u
}

// number is the number of a queue's or a kind's name.
func number(ns string, kind bool, name string) int64 {
	b := []byte{0}
	if kind {
		b[0] = 1
	}
	b = binary.AppendUvarint(b, uint64(len(ns)))
	sum := sha256.Sum256(append(append(b, ns...), name...))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// ref is a worker's lease as statements take it, after the namespace.
func ref(r lease.Ref) []any { return []any{keyBytes(r.Key), owner(r.Owner), int64(r.Token)} }

func args(first ...any) func(...any) []any {
	return func(more ...any) []any { return append(first, more...) }
}

var (
	_ driver.Store = tasks{}
	_ driver.Admin = admin{}
)
