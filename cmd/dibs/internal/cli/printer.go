package cli

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/dibs-run/dibs/internal/aside"
)

// maxQueued bounds, in bytes, what waits to be printed.
const maxQueued = 1 << 20

// A printer writes lines in the background, each in one call. An output that nobody reads holds up nobody: lines are
// dropped then, and counted where they are missing. It is safe for concurrent use.
type printer struct {
	to    io.Writer
	queue *aside.Queue
}

func newPrinter(to io.Writer) *printer {
	return &printer{to, &aside.Queue{Most: maxQueued, Missing: func(dropped map[string]int) {
		fmt.Fprintf(to, "dibs: %d lines are missing here, because nobody read this output\n", dropped[lines])
	}}}
}

// lines is what a printer counts.
const lines = "lines"

// outputs is where what jobs print goes: a printer of standard output, which all jobs share, since they share this
// process's file, or, with --log-json, the log. A printer passes on what commands print as it is. Both streams of a
// command go to it, and into the history, in their true order; only the log tells them apart.
func (s *service) outputs() (*printer, *lineLog) {
	if s.logJSON {
		if s.lines == nil {
			s.lines = newLineLog(s.stderr)
		}
		return nil, s.lines
	}
	p, ok := s.stdout.(*printer)
	if !ok {
		p = newPrinter(asIs(s.stdout))
		s.stdout = p
	}
	return p, nil
}

// behind is the output behind a printer and its cleaner, for what is passed on byte by byte beside what they
// print, though not at the same time.
func behind(w io.Writer) io.Writer {
	if p, ok := w.(*printer); ok {
		w = p.to
	}
	if c, ok := w.(*cleaner); ok {
		return uncleaned{c}
	}
	return w
}

// uncleaned writes past a cleaner. Only a printer may, for which nobody waits for long: so does whoever needs
// the cleaner.
type uncleaned struct{ *cleaner }

func (u uncleaned) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.to.Write(b)
}

// Write prints p, as a line of its own, and does not wait for a slow reader either.
func (p *printer) Write(line []byte) (int, error) {
	own := append([]byte{}, line...)
	p.queue.Do(lines, len(own), func() { p.put(own) })
	return len(line), nil
}

// print queues a line, which is the printer's from now on. A slow reader slows down the caller.
func (p *printer) print(line []byte) {
	p.queue.DoPaced(lines, len(line), func() { p.put(line) })
}

func (p *printer) put(line []byte) {
	_, _ = p.to.Write(line) // a closed log must not stop the work
}

// flush waits until what was queued is written, but not for a stalled output.
func (p *printer) flush() { p.queue.Flush(aside.FlushTime) }

// newLogger makes a logger to an output of this process, in order with what else is printed there. A log that nobody
// reads holds up nobody: see printer. A storm of warnings that are alike is few lines, which count.
func newLogger(to io.Writer, handler func(io.Writer) slog.Handler) *slog.Logger {
	if p, ok := to.(*printer); ok {
		return slog.New(p.queue.FoldingHandler(handler(p.to)))
	}
	return aside.Logger(slog.New(handler(to)))
}

// textLogger logs lines for people, from a level on.
func textLogger(to io.Writer, from slog.Level) *slog.Logger {
	return newLogger(to, func(w io.Writer) slog.Handler {
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: from})
	})
}
