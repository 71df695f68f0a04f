package output

import (
	"slices"
	"sync"

	"github.com/dibs-run/dibs/run"
)

// MaxKept is how much of the end of a run's output is kept with the run.
const MaxKept = 64 << 10

// Captured passes on what a run prints, line by line under the job's name or as lines of the JSON log, and keeps the
// end of it: both streams, in the order in which they arrive.
type Captured struct {
	// To is where it is printed, each line after Prefix; nil: nowhere.
	To     *Printer
	Prefix []byte
	// Keep is called with the end of it, MaxKept bytes at most, if there is any.
	Keep func([]byte)
	// Log gets a line for each of its lines, instead of To; nil: none.
	Log *LineLog
	// Foreign means an application's answer: unlike a command of this host, it must not control the terminal, and
	// its reader holds a lease, and must not be slowed down.
	Foreign bool

	mu    sync.Mutex
	lines Lines
	tail  []byte
	done  bool
}

// Write never fails, and never waits for long: neither a closed log nor one that nobody reads may stop the work.
func (c *Captured) Write(p []byte) (int, error) { return c.WriteStream(run.Stdout, p) }

// Apart implements run.Streams.
func (c *Captured) Apart() bool { return c.Log != nil }

// WriteStream is Write for one of the streams.
func (c *Captured) WriteStream(s run.Stream, p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return len(p), nil // the run has ended, and its output is kept
	}
	c.tail = AppendEnd(c.tail, p, MaxKept)
	if c.To != nil || c.Log != nil {
		c.lines.Put = c.print
		c.lines.Write(s, p)
	}
	return len(p), nil
}

// AppendEnd returns the end of kept followed by b: at least the last most bytes, and at most twice as many. LastOf
// returns exactly that many.
func AppendEnd(kept, b []byte, most int) []byte {
	kept = append(kept, LastOf(b, most)...)
	if over := len(kept) - most; over > most { // not each time: a flood comes in small pieces
		kept = append(kept[:0], kept[over:]...)
	}
	return kept
}

// LastOf returns the end of b.
func LastOf(b []byte, most int) []byte { return b[max(len(b)-most, 0):] }

// print writes one line in one call, so that the lines of several runs do not mix.
func (c *Captured) print(s run.Stream, line []byte, partial bool) {
	switch {
	case c.Log != nil:
		c.Log.Put(s, line, partial, !c.Foreign)
	case c.Foreign:
		_, _ = c.To.Write(slices.Concat(c.Prefix, Clean(line), []byte("\n")))
	default:
		c.To.Print(slices.Concat(c.Prefix, line, []byte("\n")))
	}
}

// Close prints an unfinished line and stores the output. It is called after the release.
func (c *Captured) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	c.lines.Put = c.print
	c.lines.End()
	if len(c.tail) > 0 {
		c.Keep(LastOf(c.tail, MaxKept))
	}
	c.flush()
	return nil
}

func (c *Captured) flush() {
	switch {
	case c.Log != nil:
		c.Log.Flush()
	case c.To != nil:
		c.To.Flush()
	}
}
