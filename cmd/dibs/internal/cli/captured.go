package cli

import (
	"slices"
	"sync"

	"github.com/dibs-run/dibs/run"
)

// maxKept is how much of a run's output is kept with it: the end.
const maxKept = 64 << 10

// captured passes on what a run prints, line by line under the job's name or as lines of the JSON log, and
// keeps the end of it. Kept is what both streams print, in the order in which it arrives.
type captured struct {
	to     *printer
	prefix []byte
	keep   func([]byte)
	log    *lineLog // instead of to; nil: there is none
	// foreign is what an application answers: it must not speak to the terminal, as a command of ours may, and whoever
	// passes it on holds a lease, and is not to be slowed down.
	foreign bool

	mu    sync.Mutex
	lines linewise
	tail  []byte
	done  bool
}

// Write never fails, and never waits for long: neither a closed log nor one that nobody reads
// may stop the work.
func (c *captured) Write(p []byte) (int, error) { return c.WriteStream(run.Stdout, p) }

// Apart is run.Streams's.
func (c *captured) Apart() bool { return c.log != nil }

// WriteStream is Write for one of the streams.
func (c *captured) WriteStream(s run.Stream, p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return len(p), nil // the run has ended, and its output is kept
	}
	c.tail = appendEnd(c.tail, p, maxKept)
	c.lines.put = c.print
	c.lines.write(s, p)
	return len(p), nil
}

// appendEnd is what is kept of an output and of what is printed then: at least the last bytes of both, as many as are
// wanted, and at most twice that. lastOf has them exactly.
func appendEnd(kept, b []byte, most int) []byte {
	kept = append(kept, lastOf(b, most)...)
	if over := len(kept) - most; over > most { // not each time: a flood comes in small pieces
		kept = append(kept[:0], kept[over:]...)
	}
	return kept
}

func lastOf(b []byte, most int) []byte { return b[max(len(b)-most, 0):] }

// print writes one line in one call, so that the lines of several runs do not mix.
func (c *captured) print(s run.Stream, line []byte, partial bool) {
	switch {
	case c.log != nil:
		c.log.put(s, line, partial, !c.foreign)
	case c.foreign:
		_, _ = c.to.Write(slices.Concat(c.prefix, clean(line), []byte("\n")))
	default:
		c.to.print(slices.Concat(c.prefix, line, []byte("\n")))
	}
}

// Close prints an unfinished line and keeps the output. It comes after the release.
func (c *captured) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	c.lines.put = c.print
	c.lines.end()
	if len(c.tail) > 0 {
		c.keep(lastOf(c.tail, maxKept))
	}
	c.flush()
	return nil
}

func (c *captured) flush() {
	if c.log != nil {
		c.log.to.flush()
		return
	}
	c.to.flush()
}
