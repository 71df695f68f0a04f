//go:build linux

package work

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/lease"
)

const (
	most = 200_000 // tasks
	keys = 64      // limits of one
)

// A ledger is what all processes share.
type ledger struct {
	effects [most]effect
	inside  [keys]atomic.Uint64 // the visit of the task that runs under the key

	// What went wrong, and may not.
	twice, doubled, overlaps atomic.Int64
	// What happened on the way, and may: effects and reports of workers that were too late.
	fenced, stale atomic.Int64
}

// An effect is what became of one task.
type effect struct {
	token     atomic.Int64 // of the last effect
	applied   atomic.Int64 // how many there were, each under a larger token
	completed atomic.Int64 // the token under which the store took its completion
}

func openLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(ledger{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap %s: %w", path, err)
	}
	return (*ledger)(unsafe.Pointer(&mem[0])), nil
}

// apply makes the effect of task n.
func (l *ledger) apply(n int, token lease.Token) {
	e := &l.effects[n]
	for {
		last := e.token.Load()
		switch {
		case int64(token) == last:
			l.twice.Add(1)
			fmt.Printf("task %d: its effect was applied twice under token %d\n", n, token)
			return
		case int64(token) < last:
			l.fenced.Add(1)
			return
		}
		if e.token.CompareAndSwap(last, int64(token)) {
			e.applied.Add(1)
			return
		}
	}
}

// complete notes that the store took a completion.
func (l *ledger) complete(n int, token lease.Token) {
	e := &l.effects[n]
	if !e.completed.CompareAndSwap(0, int64(token)) && e.completed.Load() != int64(token) {
		l.doubled.Add(1)
		fmt.Printf("task %d: completed under token %d, and under %d\n", n, e.completed.Load(), token)
	}
}

var visits atomic.Uint32

// enter says that a task begins under a limit of one.
func (l *ledger) enter(key int) (leave func()) {
	me := uint64(os.Getpid())<<32 | uint64(visits.Add(1))
	p := &l.inside[key]
	other := p.Load()
	if other != 0 && !died(p, other) || !p.CompareAndSwap(other, me) {
		l.overlaps.Add(1)
		fmt.Printf("key %d: process %d finds process %d at work\n", key, os.Getpid(), p.Load()>>32)
		return func() {}
	}
	return func() {
		if !p.CompareAndSwap(me, 0) {
			l.overlaps.Add(1)
		}
	}
}

// died says whether the visit that was found ended by the death of its process, which the kernel
// tells a moment after it freed what the process had.
func died(p *atomic.Uint64, visit uint64) bool {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", visit>>32))
		if p.Load() != visit {
			return false
		}
		if err != nil || strings.Contains(string(b), ") Z ") || strings.Contains(string(b), ") X ") {
			return true
		}
	}
	return false
}
