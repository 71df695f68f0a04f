//go:build linux

package stress

import (
	"errors"
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
	clients = 16
	keys    = 4
)

// A board is the observer: memory shared by the test and its client processes.
type board struct {
	// lingering makes whoever holds a key stay until it is cleared, or until the lease is lost.
	lingering atomic.Bool
	places    [keys]place
	// done counts the complete cycles of each client: granted, worked, released.
	done [clients]atomic.Int64

	// What went wrong, and may not.
	overlaps, stale, overruns atomic.Int64
	// What happened on the way, and may.
	lost, unavailable, held, heldBack, cleared atomic.Int64
}

// A place is what is seen of one key.
type place struct {
	inside  atomic.Uint64 // the visit of who is at work, 0 for nobody
	token   atomic.Int64  // of the last who entered
	entered atomic.Int64  // how many did
}

// A visit is one stay of one process: its pid, and a number that tells its stays apart.
type visit uint64

var visits atomic.Uint32 // of this process

func newVisit() visit    { return visit(os.Getpid())<<32 | visit(visits.Add(1)) }
func (v visit) pid() int { return int(v >> 32) }

// openBoard maps the file at path, which is made with zeroes if it is not there.
func openBoard(path string) (*board, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(board{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap %s: %w", path, err)
	}
	return (*board)(unsafe.Pointer(&mem[0])), nil
}

var (
	errOverlap = errors.New("two holders at once")
	errStale   = errors.New("the token did not rise")
)

// enter says that the holder of token begins its work. After errOverlap it is not inside, after
// errStale it is.
func (b *board) enter(key int, me visit, token lease.Token) error {
	p := &b.places[key]
	other := visit(p.inside.Load())
	if other != 0 && !p.died(other) {
		b.overlaps.Add(1)
		return fmt.Errorf("%w: process %d, with token %d, finds process %d, alive", errOverlap, me.pid(), token, other.pid())
	}
	if !p.inside.CompareAndSwap(uint64(other), uint64(me)) {
		b.overlaps.Add(1)
		return fmt.Errorf("%w: process %d, with token %d, and %d enter together", errOverlap, me.pid(), token, visit(p.inside.Load()).pid())
	}
	if other != 0 {
		b.cleared.Add(1)
	}
	p.entered.Add(1)
	if last := p.token.Swap(int64(token)); int64(token) <= last {
		b.stale.Add(1)
		return fmt.Errorf("%w: %d after %d", errStale, token, last)
	}
	return nil
}

// leave says that the work has ended.
func (b *board) leave(key int, me visit) error {
	p := &b.places[key]
	if !p.inside.CompareAndSwap(uint64(me), 0) {
		b.overlaps.Add(1)
		return fmt.Errorf("%w: process %d leaves, and finds %d in its place", errOverlap, me.pid(), visit(p.inside.Load()).pid())
	}
	return nil
}

// died says whether the visit that was found ended by the death of its process. The kernel frees
// the locks of a dying process a moment before /proc calls it dead, so it gets that moment, long on a busy machine;
// one that leaves by itself meanwhile was alive.
func (p *place) died(v visit) bool {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		dead := dead(v.pid())
		if visit(p.inside.Load()) != v {
			return false
		}
		if dead {
			return true
		}
	}
	return false
}

// dead says whether no thread of a process can ever run again.
func dead(pid int) bool {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)) // none: it is gone
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, task.Name()))
		if err != nil {
			continue // this one ended while we looked
		}
		state := strings.TrimSpace(string(b[strings.LastIndexByte(string(b), ')')+1:]))[0]
		if state != 'Z' && state != 'X' {
			return false
		}
	}
	return true
}

// cycles is the sum of all clients' complete cycles.
func (b *board) cycles() (n int64) {
	for i := range b.done {
		n += b.done[i].Load()
	}
	return n
}
