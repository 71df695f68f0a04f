package output

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/dibs-run/dibs/internal/aside"
)

// maxQueued bounds, in bytes, what waits to be printed.
const maxQueued = 1 << 20

// A Printer writes lines in the background, each in one call. An output that nobody reads holds up nobody: lines are
// dropped then, and counted where they are missing. It is safe for concurrent use.
type Printer struct {
	to    io.Writer
	queue *aside.Queue
}

// NewPrinter makes one that writes to an output.
func NewPrinter(to io.Writer) *Printer {
	return &Printer{to, &aside.Queue{Most: maxQueued, Missing: func(dropped map[string]int) {
		fmt.Fprintf(to, "dibs: %d lines are missing here, because nobody read this output\n", dropped[lines])
	}}}
}

// lines is what a Printer counts.
const lines = "lines"

// PrinterOf is w where that is a printer already, so that what several write there keeps its order; else a new one,
// which passes on what it is given as it is.
func PrinterOf(w io.Writer) *Printer {
	if p, ok := w.(*Printer); ok {
		return p
	}
	return NewPrinter(AsIs(w))
}

// Behind is the output behind a Printer and its Cleaner, for what is passed on byte by byte beside what they
// print, though not at the same time.
func Behind(w io.Writer) io.Writer {
	if p, ok := w.(*Printer); ok {
		w = p.to
	}
	if c, ok := w.(*Cleaner); ok {
		return uncleaned{c}
	}
	return w
}

// uncleaned writes past a Cleaner. Only a Printer may, for which nobody waits for long: so does whoever needs
// the Cleaner.
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

// Print queues a line, which is the Printer's from now on. A slow reader slows down the caller.
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

// Logger makes a logger to an output of this process, in order with what else is printed there. A log that nobody
// reads holds up nobody: see Printer. A storm of warnings that are alike is few lines, which count.
func Logger(to io.Writer, handler func(io.Writer) slog.Handler) *slog.Logger {
	if p, ok := to.(*Printer); ok {
		return slog.New(p.queue.FoldingHandler(handler(p.to)))
	}
	return aside.Logger(slog.New(handler(to)))
}

// TextLogger logs lines for people, from a level on.
func TextLogger(to io.Writer, from slog.Level) *slog.Logger {
	return Logger(to, func(w io.Writer) slog.Handler {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: from})
	})
}
