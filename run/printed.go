package run

import (
	"io"
	"sync/atomic"
)

// printed counts what the attempts of a run print on its way to where it is kept. A command's leftovers may still
// print when the next attempt begins, hence the atomics.
type printed struct {
	to      io.Writer
	bytes   atomic.Int64
	unended [2]atomic.Bool // the last line of a stream has no end
}

func newPrinted(to io.Writer) *printed {
	if to == nil {
		to = io.Discard
	}
	return &printed{to: to}
}

func (p *printed) Write(b []byte) (int, error) { return p.WriteStream(Stdout, b) }

// WriteStream implements Streams, and so does Apart.
func (p *printed) WriteStream(s Stream, b []byte) (int, error) {
	if len(b) > 0 {
		p.bytes.Add(int64(len(b)))
		p.unended[p.index(s)].Store(b[len(b)-1] != '\n')
	}
	return WriteStream(p.to, s, b)
}

func (p *printed) Apart() bool { return Apart(p.to) }

// index returns the counter of a stream: one for each if their lines are kept apart, else one for both.
func (p *printed) index(s Stream) int {
	if s == Stderr && p.Apart() {
		return 1
	}
	return 0
}

// attempt begins a line of its own for another attempt, and returns a function that counts the attempt's bytes.
func (p *printed) attempt() (bytes func() int64) {
	from := p.bytes.Load()
	for _, s := range []Stream{Stdout, Stderr} {
		if p.unended[p.index(s)].Load() {
			_, _ = p.WriteStream(s, []byte("\n")) // the writer that keeps it bounds it, and never fails the work
		}
	}
	return func() int64 { return p.bytes.Load() - from }
}
