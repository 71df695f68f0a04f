package run

import (
	"io"
	"sync/atomic"
)

// printed counts what the attempts of a run print on its way to where it is kept. A command's
// leftovers may still print when the next attempt begins, hence the atomics.
type printed struct {
	to      io.Writer
	bytes   atomic.Int64
	unended atomic.Bool // the last line has no end
}

func newPrinted(to io.Writer) *printed {
	if to == nil {
		to = io.Discard
	}
	return &printed{to: to}
}

func (p *printed) Write(b []byte) (int, error) {
	if len(b) > 0 {
		p.bytes.Add(int64(len(b)))
		p.unended.Store(b[len(b)-1] != '\n')
	}
	return p.to.Write(b)
}

// attempt begins a line of its own for another attempt, and answers what counts its bytes.
func (p *printed) attempt() (bytes func() int64) {
	from := p.bytes.Load()
	if p.unended.Load() {
		_, _ = p.Write([]byte("\n")) // whoever keeps it bounds it, and never fails the work
	}
	return func() int64 { return p.bytes.Load() - from }
}
