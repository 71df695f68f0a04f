package aside

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// recordSize is what a record of a log counts for in a queue, in bytes.
const recordSize = 512

// FlushTime is how long the end of something waits for its last log lines.
const FlushTime = time.Second

// Logger makes a logger that never waits for the one given: its records go through a bounded queue. Those that did not
// fit are counted, and their number by level is logged where they are missing. Nil is a logger that discards.
// Durations are logged in seconds, under a name that says so: a handler of JSON writes a number without a unit.
func Logger(to *slog.Logger) *slog.Logger {
	switch {
	case to == nil:
		return slog.New(slog.DiscardHandler)
	case to.Handler() == slog.DiscardHandler:
		return to
	}
	if _, ok := to.Handler().(*handler); ok {
		return to
	}
	h := (&Queue{}).Handler(to.Handler()).(*handler)
	h.seconds = true
	return slog.New(h)
}

// Handler hands records on through the queue, and has it log what is missing.
func (q *Queue) Handler(to slog.Handler) slog.Handler {
	missing := func(dropped map[string]int) {
		total, attrs := 0, []slog.Attr{}
		for _, level := range slices.Sorted(maps.Keys(dropped)) {
			total += dropped[level]
			attrs = append(attrs, slog.Int(level, dropped[level]))
		}
		r := slog.NewRecord(time.Now(), slog.LevelWarn, fmt.Sprintf("%d log lines are missing here: nobody read the log", total), 0)
		r.AddAttrs(slog.String("event", "log-dropped"))
		r.AddAttrs(attrs...)
		write(context.Background(), to, r)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.Missing = missing
	return &handler{to: to, queue: q}
}

// FoldingHandler is Handler, but of records that are alike only the first is logged at once, and once a minute
// the last one of those that followed, with their number: of warnings and errors, and at INFO of the events of
// a job that are of no run of its own, such as contention for its lease. The start and the end of each run are
// logged.
func (q *Queue) FoldingHandler(to slog.Handler) slog.Handler {
	h := q.Handler(to).(*handler)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.folds == nil {
		q.folds = &folds{}
	}
	h.folds = q.folds
	return h
}

// Flush waits until the records that a logger made by this package was given are written, for at most FlushTime.
func Flush(l *slog.Logger) {
	if h, ok := l.Handler().(*handler); ok {
		h.queue.Flush(FlushTime)
	}
}

type handler struct {
	to    slog.Handler
	queue *Queue
	folds *folds // nil: each record is logged
	with  string // of the likeness of all its records
	about about  // what all of them are

	seconds bool // durations are logged as numbers of seconds
}

// InSeconds returns a duration as the rest of dibs's JSON has it, in seconds and with the unit in its name, and any
// other attribute as it is.
func InSeconds(a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}

// told returns the attributes as they are logged.
func (h *handler) told(attrs []slog.Attr) []slog.Attr {
	if !h.seconds {
		return attrs
	}
	told := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		told[i] = InSeconds(a)
	}
	return told
}

// record returns a record of its own, as it is logged.
func (h *handler) record(r slog.Record) slog.Record {
	if !h.seconds {
		return r.Clone()
	}
	told := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool { told.AddAttrs(InSeconds(a)); return true })
	return told
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.to.Enabled(ctx, l) }

// Handle queues a record. Its values must not change afterwards.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	ctx, r = context.WithoutCancel(ctx), h.record(r)
	log := func(r slog.Record) {
		h.queue.Do(r.Level.String(), recordSize, func() { write(ctx, h.to, r) })
	}
	if h.folds != nil && h.about.of(r).folds(r.Level) && h.folds.take(likeness(h.with, r), func(times int) {
		r.AddAttrs(slog.Int("times", times))
		log(r)
	}) {
		return nil
	}
	log(r)
	return nil
}

// write hands a record to the log, which is the caller's, as what it prints may be: a panic there costs the record,
// not the process.
func write(ctx context.Context, to slog.Handler, r slog.Record) {
	defer func() { _ = recover() }()
	_ = to.Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with, about := h.with, h.about
	for _, a := range attrs {
		with += likenessOf(a)
		about.take(a)
	}
	return &handler{h.to.WithAttrs(h.told(attrs)), h.queue, h.folds, with, about, h.seconds}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.to.WithGroup(name), h.queue, h.folds, h.with + "\x00" + name, h.about, h.seconds}
}
