package scheduler

import (
	"io"
	"slices"
	"sync"

	"github.com/dibs-run/dibs/run"
)

// maxTail is how much of a run's output hooks get: the end.
const maxTail = 10 << 10

// A tail passes on what is written, and keeps the end of it.
type tail struct {
	to io.Writer

	mu  sync.Mutex
	end []byte
}

func (t *tail) Write(b []byte) (int, error) { return t.WriteStream(run.Stdout, b) }

// Apart implements run.Streams.
func (t *tail) Apart() bool { return run.Apart(t.to) }

// WriteStream is Write for one of the streams.
func (t *tail) WriteStream(s run.Stream, b []byte) (int, error) {
	t.mu.Lock()
	t.end = append(t.end, b[max(len(b)-maxTail, 0):]...)
	if over := len(t.end) - maxTail; over > 0 {
		t.end = append(t.end[:0], t.end[over:]...)
	}
	t.mu.Unlock()
	return run.WriteStream(t.to, s, b)
}

func (t *tail) kept() []byte {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.end)
}

// keepTail makes the fire keep the end of what it prints, if hooks may ask for it.
func (x *execution) keepTail() {
	if x.b.Hooks != nil {
		x.tail = &tail{to: x.Output}
		x.Output = x.tail
	}
}
