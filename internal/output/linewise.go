package output

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/run"
)

// maxLine is how much of a line of output is passed on at once, in bytes: a longer one comes in pieces.
const maxLine = 64 << 10

// Lines splits what is printed on the two streams into lines, and long lines into pieces: partial means that the
// line continues. Its memory is bounded. It is not safe for concurrent use.
type Lines struct {
	// Put receives a line without its end.
	Put  func(s run.Stream, line []byte, partial bool)
	rest [2][]byte // of each stream, what has no end yet
}

// Write adds what a stream prints.
func (l *Lines) Write(s run.Stream, b []byte) {
	rest := &l.rest[indexOf(s)]
	known := len(*rest) // of what is looked at, this has no line end
	text := append(*rest, b...)
	left := text
	for {
		look := left[:min(len(left), maxLine+1)]
		i := bytes.IndexByte(look[min(known, len(look)):], '\n')
		switch {
		case i >= 0:
			i += min(known, len(look))
			l.Put(s, left[:i], false)
			left = left[i+1:]
		case len(left) > maxLine:
			i = maxLine - incomplete(left[:maxLine]) // a character is not cut
			l.Put(s, left[:i], true)
			left = left[i:]
		default:
			*rest = append(text[:0], left...) // once for all of the lines, of which there may be many
			return
		}
		known = 0
	}
}

// End puts a last line without a line end.
func (l *Lines) End() {
	for i, rest := range l.rest {
		if len(rest) > 0 {
			l.Put(run.Stream(i+1), rest, false)
		}
		l.rest[i] = nil
	}
}

func indexOf(s run.Stream) int {
	if s == run.Stderr {
		return 1
	}
	return 0
}

// A LineLog writes a line of the JSON log for each line that work prints. It has its own queue beside the log's:
// however much work prints, no log line of dibs itself is dropped for it. It is safe for concurrent use.
type LineLog struct {
	to    *Printer
	paced slog.Handler // slows its caller down to the reader's pace
	hasty slog.Handler // waits for nobody
}

// NewLineLog returns a LineLog that writes where a log does.
func NewLineLog(to io.Writer) *LineLog {
	if p, ok := to.(*Printer); ok {
		to = p.to
	}
	l := &LineLog{to: NewPrinter(to)}
	l.to.queue = &aside.Queue{Most: maxQueued, Missing: func(dropped map[string]int) {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "lines of output are missing here, because nobody read the log", 0)
		r.AddAttrs(slog.String("event", "output-dropped"), slog.Int("lines", dropped[lines]))
		_ = slog.NewJSONHandler(to, nil).Handle(context.Background(), r)
	}}
	l.paced, l.hasty = slog.NewJSONHandler(pacedWriter{l.to}, nil), slog.NewJSONHandler(l.to, nil)
	return l
}

// Of returns the log of what one run prints.
func (l *LineLog) Of(attrs ...slog.Attr) *LineLog {
	attrs = append([]slog.Attr{slog.String("event", "output")}, attrs...)
	return &LineLog{to: l.to, paced: l.paced.WithAttrs(attrs), hasty: l.hasty.WithAttrs(attrs)}
}

// Put logs a line or a piece of one. It slows its caller down to the reader's pace if wait allows that. It replaces
// what is not UTF-8.
func (l *LineLog) Put(s run.Stream, line []byte, partial, wait bool) {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "output", 0)
	r.AddAttrs(slog.String("stream", s.String()), slog.String("line", string(bytes.ToValidUTF8(line, []byte("\uFFFD")))))
	if partial {
		r.AddAttrs(slog.Bool("partial", true))
	}
	to := l.hasty
	if wait {
		to = l.paced
	}
	_ = to.Handle(context.Background(), r) // a closed log must not stop the work
}

// Flush waits until what was put is written, but not for a stalled log. A nil LineLog has nothing to wait for.
func (l *LineLog) Flush() {
	if l != nil {
		l.to.Flush()
	}
}

// pacedWriter prints lines as Printer.Print does.
type pacedWriter struct{ *Printer }

func (w pacedWriter) Write(line []byte) (int, error) {
	w.Print(bytes.Clone(line))
	return len(line), nil
}

// OfRun returns a run's attributes in the log.
func OfRun(r run.Record) []slog.Attr {
	return []slog.Attr{slog.String("job", r.Job), slog.String("run_id", r.ID)}
}

// OfTask returns a task's attributes in the log.
func OfTask(id int64, kind, queue string, attempt int, runID string) []slog.Attr {
	return []slog.Attr{slog.Int64("task", id), slog.String("kind", kind), slog.String("queue", queue), slog.Int("attempt", attempt),
		slog.String("run_id", runID)}
}
