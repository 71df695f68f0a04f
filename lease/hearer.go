package lease

import "sync"

// A hearer calls one who wants to hear of what goes on, on a goroutine of its own that lives only while there is
// something to tell: many others may wait for the one who tells. The zero hearer is ready for use.
type hearer struct {
	mu   sync.Mutex
	busy bool
	next func() // what is to be told next; nil: nothing
}

// tell returns at once. What was to be told next, and is not begun, is left out.
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
