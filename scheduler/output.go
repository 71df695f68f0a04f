package scheduler

import (
	"io"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/run"
)

// outputPatience is how long the work waits for an Output that takes nothing.
const outputPatience = time.Second

// An outlet passes on what the work prints. A slow Output slows the work down, as a slow reader of a pipe does. One
// that takes nothing at all for outputPatience holds nobody up any more: what is printed until it does is dropped and
// counted.
type outlet struct {
	to    io.Writer
	queue aside.Queue

	mu      sync.Mutex
	err     error // of the last write
	dropped int
}

func newOutlet(to io.Writer) *outlet {
	// There is room for one piece, besides that which is waited for.
	return &outlet{to: to, queue: aside.Queue{Most: 1, Patience: outputPatience}}
}

// Write returns the error of the write before it.
func (o *outlet) Write(b []byte) (int, error) { return o.WriteStream(run.Stdout, b) }

// Apart is run.Streams's.
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

// missing waits for what is being written, and says how much was dropped.
func (o *outlet) missing() (bytes int, behind bool) {
	behind = !o.queue.Flush(outputPatience)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped, behind
}

// pace puts an outlet in front of the fire's Output; what it returns is to be called after the release.
func (x *execution) pace() (end func()) {
	if x.Output == io.Discard {
		return func() {}
	}
	o := newOutlet(x.Output)
	x.Output = o
	return func() {
		if bytes, behind := o.missing(); bytes > 0 || behind {
			x.b.log().Warn("some output of this run was dropped: its Output took nothing for "+outputPatience.String(),
				"event", "output-dropped", "job", x.Key, "run_id", x.RunID, "bytes", bytes)
		}
	}
}
