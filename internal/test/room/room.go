// Package room lets tests begin beside each other only while the processors have room for them.
//
// Most of the tests that talk to servers and start processes wait most of the time, so many of them run beside each
// other. What they test is less patient than they are: dibs gives a connection, a beat of a lease or a writer's turn
// a few seconds. On a machine that is slow, or busy with something else, many tests beside each other use those
// seconds up in the processors' queue, and fail though nothing is wrong.
package room

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// most is how many threads may run, or wait for a processor, for each of the processors.
	most = 6
	// patience bounds the wait: the load of a neighbour does not end.
	patience = time.Minute
)

// Least is how many tests of this process run beside each other, whatever the machine does. A TestMain may change it:
// tests that wait most of the time leave room for others.
var Least = 2

var (
	door   sync.Mutex // one waits, the others stand in line behind it
	inside = places{names: map[string]bool{}}
)

// For waits until there is room for the test, which keeps its place until it ends, or until a part of it asks for one:
// it only waits for its parts then. Whoever asks twice has one place.
func For(t testing.TB) {
	name := t.Name()
	if !inside.asks(name) {
		return
	}
	t.Cleanup(func() { inside.leaves(name) })
	end := time.Now().Add(patience)
	door.Lock()
	defer door.Unlock()
	for inside.count() >= Least && time.Now().Before(end) && busy() {
	}
	inside.enters(name)
}

// busy looks at the processors' queue: once if it is short, else for a while.
func busy() bool {
	const looks, pause = 10, 20 * time.Millisecond
	bound, sum := most*runtime.NumCPU(), 0
	for i := range looks {
		n := running()
		if i == 0 && n <= bound/2 {
			return false
		}
		sum += n
		time.Sleep(pause)
	}
	return sum > looks*bound
}

// running is how many threads run or wait for a processor; 0 where nobody tells. A test of this package replaces it.
var running = func() int {
	b, _ := os.ReadFile("/proc/loadavg") // proc_loadavg(5): the fourth field is running/all
	fields := strings.Fields(string(b))
	if len(fields) < 4 {
		return 0
	}
	n, _, _ := strings.Cut(fields[3], "/")
	count, _ := strconv.Atoi(n)
	return count
}

// places are the tests of this process that have asked, and whether they are inside.
type places struct {
	sync.Mutex
	names map[string]bool
}

// asks says whether a test that has no place asks for one, and takes away the places of those it is a part of.
func (p *places) asks(name string) bool {
	p.Lock()
	defer p.Unlock()
	if _, ok := p.names[name]; ok {
		return false
	}
	p.names[name] = false
	for above := name; strings.Contains(above, "/"); {
		above = above[:strings.LastIndexByte(above, '/')]
		if p.names[above] {
			p.names[above] = false
		}
	}
	return true
}

func (p *places) enters(name string) {
	p.Lock()
	defer p.Unlock()
	p.names[name] = true
}

func (p *places) leaves(name string) {
	p.Lock()
	defer p.Unlock()
	delete(p.names, name)
}

func (p *places) count() (n int) {
	p.Lock()
	defer p.Unlock()
	for _, in := range p.names {
		if in {
			n++
		}
	}
	return n
}
