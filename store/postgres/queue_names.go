package postgres

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// names are the names of queues and kinds that this process has seen, with their numbers. It is safe for concurrent
// use.
type names struct {
	ns    string
	swept atomic.Int64 // the queue whose turn was the last one; 0: the first is the next. See maintenance

	mu      sync.RWMutex
	numbers map[name]int64
	stored  map[int64]bool // the database knows it
	of      map[int64]string
	bands   map[band]bool // the database knows them
}

// band is a queue, a kind and a rank: see the migration.
type band struct {
	queue, kind int64
	rank        int32
}

// name is that of a queue or of a kind.
type name struct {
	kind bool
	text string
}

func newNames(ns string) *names {
	return &names{ns: ns, numbers: map[name]int64{}, stored: map[int64]bool{}, of: map[int64]string{}, bands: map[band]bool{}}
}

func (n *names) queue(text string) int64 { return n.number(name{false, text}) }
func (n *names) kind(text string) int64  { return n.number(name{true, text}) }

func (n *names) number(of name) int64 {
	n.mu.RLock()
	v, found := n.numbers[of]
	n.mu.RUnlock()
	if found {
		return v
	}
	v = number(n.ns, of.kind, of.text)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.numbers[of], n.of[v] = v, of.text
	return v
}

// unstored returns the names among some that the database may not have.
func (n *names) unstored(some map[name]bool) (list []name) {
	for of := range some {
		v := n.number(of)
		n.mu.RLock()
		if !n.stored[v] {
			list = append(list, of)
		}
		n.mu.RUnlock()
	}
	return list
}

// store is the step that adds names to the database.
func (n *names) store(list []name) step {
	return do(sqlEnqueue()[0], n.ns,
		column(list, n.number),
		column(list, func(of name) bool { return of.kind }),
		column(list, func(of name) string { return of.text }))
}

// known notes that the database has names.
func (n *names) known(list []name) {
	for _, of := range list {
		v := n.number(of)
		n.mu.Lock()
		n.stored[v] = true
		n.mu.Unlock()
	}
}

// newBands returns the bands among some that the database may not have. storeBands is the step that adds them.
func (n *names) newBands(some map[band]bool) (list []band) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for l := range some {
		if !n.bands[l] {
			list = append(list, l)
		}
	}
	return list
}

func storeBands(list []band) step {
	return do(sqlEnqueue()[8],
		column(list, func(b band) int64 { return b.queue }),
		column(list, func(b band) int64 { return b.kind }),
		column(list, func(b band) int32 { return b.rank }))
}

// knownBands notes that the database has bands.
func (n *names) knownBands(list []band) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range list {
		n.bands[l] = true
	}
}

// learn reads the names of numbers that this process has not seen.
func (n *names) learn(ctx context.Context, d *db, numbers map[int64]bool) error {
	var missing []int64
	n.mu.RLock()
	for v := range numbers {
		if _, found := n.of[v]; !found {
			missing = append(missing, v)
		}
	}
	n.mu.RUnlock()
	if len(missing) == 0 {
		return nil
	}
	return d.run(ctx, "read names", do(sqlWork()[4], missing).each(func(rows pgx.Rows) error {
		var v int64
		var text string
		err := rows.Scan(&v, &text)
		n.mu.Lock()
		n.of[v] = text
		n.mu.Unlock()
		return err
	}))
}

// text is the name of a number, once it was learnt.
func (n *names) text(v int64) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.of[v]
}
