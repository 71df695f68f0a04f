package scheduler

import (
	"io"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/run"
)

// outputPatience is how long the work waits for an Output that accepts nothing.
const outputPatience = time.Second

// An outlet passes on what the work prints. A slow Output slows the work down, as a slow reader of a pipe does. If
// it accepts nothing at all for outputPatience, the work no longer waits: what it prints until the Output accepts
// again is dropped and counted.
type outlet struct {
	to    io.Writer
	queue aside.Queue

	mu      sync.Mutex
	err     error // of the last write
	dropped int
}

func newOutlet(to io.Writer) *outlet {
	// There is room for one piece, in addition to the one being written.
	return &outlet{to: to, queue: aside.Queue{Most: 1, Patience: outputPatience}}
}

// Write returns the error of the write before it.
func (o *outlet) Write(b []byte) (int, error) { return o.WriteStream(run.Stdout, b) }

// Apart implements run.Streams.
func (o *outlet) Apart() bool { return run.Apart(o.to) }

// WriteStream is Write for one of the streams.
func (o *outlet) WriteStream(s run.Stream, b []byte) (int, error) {
	piece := slices.Clone(b)
	taken := o.queue.DoPaced("output", len(piece), func() {
		_, err := run.WriteStream(o.to, s, piece)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = err
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if !taken {
		o.dropped += len(b)
	}
	if o.err != nil {
		return 0, o.err
	}
	return len(b), nil
}

// missing waits for the write in progress, and returns how much was dropped.
func (o *outlet) missing() (bytes int, behind bool) {
	behind = !o.queue.Flush(outputPatience)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped, behind
}

// pace puts an outlet in front of the fire's Output; call the function that it returns after the release.
func (x *execution) pace() (end func()) {
	if x.Output == io.Discard {
		return func() {}
	}
	o := newOutlet(x.Output)
	x.Output = o
	return func() {
		if bytes, behind := o.missing(); bytes > 0 || behind {
			x.b.log().Warn("some output of this run was dropped: nothing read it for "+outputPatience.String(),
				"event", "output-dropped", "job", x.Key, "run_id", x.RunID, "bytes", bytes)
		}
	}
}
