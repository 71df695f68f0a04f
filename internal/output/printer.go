package output

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/dibs-run/dibs/internal/aside"
)

// maxQueued bounds, in bytes, what waits to be printed.
const maxQueued = 1 << 20

// A Printer writes lines in the background, each in one call. An output that nobody reads delays nobody: lines are
// dropped then, and counted where they are missing. It is safe for concurrent use.
type Printer struct {
	to    io.Writer
	queue *aside.Queue
}

// NewPrinter returns a Printer that writes to an output.
func NewPrinter(to io.Writer) *Printer {
	return &Printer{to, &aside.Queue{Most: maxQueued, Missing: func(dropped map[string]int) {
		fmt.Fprintf(to, "dibs: %d lines are missing here, because nobody read this output\n", dropped[lines])
	}}}
}

// lines is what a Printer counts.
const lines = "lines"

// PrinterOf returns w if it already is a printer, so that what several write there keeps its order; else a new one,
// which passes on what it is given unchanged.
func PrinterOf(w io.Writer) *Printer {
	if p, ok := w.(*Printer); ok {
		return p
	}
	return NewPrinter(AsIs(w))
}

// Behind returns the output behind a Printer and its Cleaner, for what is passed on byte by byte in addition to what
// they print, though not at the same time.
func Behind(w io.Writer) io.Writer {
	if p, ok := w.(*Printer); ok {
		w = p.to
	}
	if c, ok := w.(*Cleaner); ok {
		return uncleaned{c}
	}
	return w
}

// uncleaned writes past a Cleaner. Only a Printer may do so, since nobody waits long for a Printer, and so nobody
// waits long for the Cleaner either.
type uncleaned struct{ *Cleaner }

func (u uncleaned) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.to.Write(b)
}

// Write prints p, as a line of its own, and does not wait for a slow reader either.
func (p *Printer) Write(line []byte) (int, error) {
	own := append([]byte{}, line...)
	p.queue.Do(lines, len(own), func() { p.put(own) })
	return len(line), nil
}

// Print queues a line, which belongs to the Printer from now on. A slow reader slows down the caller.
func (p *Printer) Print(line []byte) {
	p.queue.DoPaced(lines, len(line), func() { p.put(line) })
}

func (p *Printer) put(line []byte) {
	_, _ = p.to.Write(line) // a closed log must not stop the work
}

// Flush waits until what was queued is written, but not for a stalled output. A nil Printer has nothing to wait for.
func (p *Printer) Flush() {
	if p != nil {
		p.queue.Flush(aside.FlushTime)
	}
}

// Logger returns a logger to an output of this process, in order with what else is printed there. A log that nobody
// reads delays nobody: see Printer. Many equal warnings become few lines with a count.
func Logger(to io.Writer, handler func(io.Writer) slog.Handler) *slog.Logger {
	if p, ok := to.(*Printer); ok {
		return slog.New(p.queue.FoldingHandler(handler(p.to)))
	}
	return slog.New((&aside.Queue{}).Handler(handler(to)))
}

// TextLogger returns a logger of lines for people, from a level on.
func TextLogger(to io.Writer, from slog.Level) *slog.Logger {
	return Logger(to, func(w io.Writer) slog.Handler {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: from})
	})
}
