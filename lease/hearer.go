package lease

import "sync"

// A hearer calls a function that wants to be told of events. Each call runs on its own goroutine, which lives only
// while there is something to tell: the caller of tell never waits. The zero hearer is ready for use.
type hearer struct {
	mu   sync.Mutex
	busy bool
	next func() // what is to be told next; nil: nothing
}

// tell returns at once. A call that has not begun yet is replaced by the newer one.
func (h *hearer) tell(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = f
	if !h.busy {
		h.busy = true
		go h.work()
	}
}

func (h *hearer) work() {
	for {
		h.mu.Lock()
		f := h.next
		h.next, h.busy = nil, f != nil
		h.mu.Unlock()
		if f == nil {
			return
		}
		f()
	}
}
