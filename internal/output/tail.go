package output

import (
	"strings"
	"sync"

	"github.com/dibs-run/dibs/run"
)

// A Tail passes on what is printed, and keeps the end of it. Set its fields before the first use. It is safe for
// concurrent use.
type Tail struct {
	// To receives what is printed, and may use it until it returns.
	To func(run.Stream, []byte)
	// Over is called to end a last line without a line end; nil: not called.
	Over func()

	mu   sync.Mutex
	last []byte
	done bool
}

const tailBytes = 4 << 10

func (t *Tail) Write(b []byte) (int, error) { return t.WriteStream(run.Stdout, b) }

// Apart implements run.Streams.
func (t *Tail) Apart() bool { return true }

// WriteStream is Write for one of the streams.
func (t *Tail) WriteStream(s run.Stream, b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done {
		t.last = AppendEnd(t.last, b, tailBytes)
		t.To(s, b)
	}
	return len(b), nil
}

// Close ends what has no line end; what is printed later is not passed on.
func (t *Tail) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done = true; t.Over != nil {
		t.Over()
	}
}

// End returns the end of what was printed, 4 KiB of it at most.
func (t *Tail) End() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(LastOf(t.last, tailBytes)), ""))
}
