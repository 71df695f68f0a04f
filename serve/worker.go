package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/internal/nested"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/task"
)

// WorkerOptions configure a Worker. Command is required.
type WorkerOptions struct {
	// Command is run once for each task. It reads the task's arguments as JSON from standard input, and finds the
	// rest in its environment: DIBS_TASK, DIBS_KIND, DIBS_QUEUE, DIBS_ATTEMPT, DIBS_TOKEN. Exit status 0 means done,
	// 75 not now, and any other is a failed attempt.
	Command []string
	// Queues are the queues to work. Default "default". Kinds are the kinds of task to work. Default any.
	Queues, Kinds []string
	// Slots is how many tasks run at the same time. Default 1.
	Slots int
	// Timeout bounds an attempt, if the task sets no timeout. Default none.
	Timeout time.Duration
	// Postpone is the time after which a task comes back when its command exits with 75. Default 30 s; negative: at
	// once.
	Postpone time.Duration
	// Rate bounds how many tasks of each of the Kinds all workers together begin. Default no bound.
	Rate queue.Rate
	// Grace is how long running tasks may continue after Run's context has ended. Default 12 s; negative: none.
	Grace time.Duration
	// StopGrace is the time between TERM and KILL when a command is stopped. Default 10 s; negative: none.
	StopGrace time.Duration
	// Hurry ends the grace at once when it is closed. Default never.
	Hurry <-chan struct{}
	// Keep is how long finished tasks are kept. Default queue.Retention.
	Keep map[task.State]time.Duration
	// Hooks are notified of what happens to the tasks; On has names of queue.TaskEvents. HookSecret signs their
	// requests.
	Hooks      []job.Hook
	HookSecret []byte
	// Observe receives what happens to attempts at tasks, and to the leases of this process and the requests about
	// them. It is called on the path of the work, and must return at once. Nil: nobody does.
	Observe observe.Func
	// StateDir is the same as Options.StateDir.
	StateDir string
	// Logger logs what happens. Logging never delays work. Default slog.Default().
	Logger *slog.Logger
	// Output and Errors receive what commands print on their two streams, unchanged. Lines, if set, replaces both:
	// it receives one line of JSON per line. The last 4 KiB that a failed command printed are kept with its task in
	// any case. A writer that blocks delays no task: output is dropped then, and counted. Default nowhere.
	Output, Errors, Lines io.Writer
}

// A Worker works the tasks of queues with a command, in any language. Create one with NewWorker.
type Worker struct {
	o        WorkerOptions
	b        *backend.Backend
	log      *slog.Logger
	inner    *nested.Inner
	hooks    *hook.Runner // nil: there are none
	worker   *queue.Worker
	out, err *output.Printer // nil: it is not printed
	lines    *output.LineLog // in their place
	told     atomic.Int64    // when it was told to stop, in ns of the boot clock; 0: it was not
}

// exitPostponed is the exit status of a command that cannot do its task now: EX_TEMPFAIL of sysexits.h.
const exitPostponed = 75

// killGrace is how long a killed command may still take to be gone: then its task is handed back, and does not wait
// until the worker's lease expires.
const killGrace = 4 * time.Second

// NewWorker creates a Worker, and opens the store if it is not open yet. A *Refusal says what is wrong with the
// options, or that the command is not there; other errors are the store's. Close the Worker at the end.
func NewWorker(ctx context.Context, at Store, o WorkerOptions) (*Worker, error) {
	if err := errors.Join(at.check("the store"), o.check()); err != nil {
		return nil, &Refusal{What: err}
	}
	if err := command.Find(o.Command[0], "", os.Environ()); err != nil {
		return nil, &Refusal{What: fmt.Errorf("the command cannot be started on this host: %w", err)}
	}
	o = o.defaults()
	w := &Worker{o: o, log: o.Logger}
	switch {
	case o.Lines != nil:
		w.lines = output.NewLineLog(o.Lines)
	default:
		w.out, w.err = printerOf(o.Output), printerOf(o.Errors)
	}
	of := Options{StateDir: o.StateDir, Observe: o.Observe, Logger: o.Logger}.backend("", "")
	b, err := at.open(ctx, of)
	if err != nil {
		return nil, err
	}
	w.b = b
	if b.Store.Queue == nil || b.Store.Tasks == nil {
		b.Close()
		return nil, fmt.Errorf("store %s has no queues: %w", at, errors.ErrUnsupported)
	}
	w.inner = at.inner(of)
	if len(o.Hooks) > 0 {
		w.hooks = hook.NewTasks(hook.Options{History: b.History, Event: b.Record, Log: w.log}, o.Hooks, o.HookSecret, command.WithoutStore(os.Environ()))
	}
	if w.worker, err = w.queueWorker(); err != nil {
		w.Close()
		return nil, &Refusal{What: err}
	}
	return w, nil
}

func printerOf(w io.Writer) *output.Printer {
	if w == nil {
		return nil
	}
	return output.PrinterOf(w)
}

func (o WorkerOptions) check() error {
	if len(o.Command) == 0 {
		return errors.New("serve: WorkerOptions.Command is empty")
	}
	if o.Rate != (queue.Rate{}) && len(o.Kinds) == 0 {
		return errors.New("serve: WorkerOptions.Rate bounds kinds: name them in Kinds")
	}
	for i := range o.Hooks {
		if err := hook.Check(&o.Hooks[i]); err != nil {
			return fmt.Errorf("hook %d (%s): %w", i+1, hook.Describe(&o.Hooks[i]), err)
		}
	}
	return nil
}

func (o WorkerOptions) defaults() WorkerOptions {
	o.Slots = cmp.Or(o.Slots, 1)
	o.Postpone = max(cmp.Or(o.Postpone, 30*time.Second), 0)
	o.Grace = max(cmp.Or(o.Grace, queue.DefaultGrace), 0)
	o.StopGrace = min(max(cmp.Or(o.StopGrace, queue.DefaultStopGrace), 0), math.MaxInt64-killGrace)
	o.Logger = aside.Logger(cmp.Or(o.Logger, slog.Default()))
	return o
}

func (w *Worker) queueWorker() (*queue.Worker, error) {
	holder := w.b.Self
	holder.Command = "dibs work " + strings.Join(w.o.Queues, " ")
	var listen func(queue.Happening)
	if w.hooks != nil {
		listen = w.hooks.TellTask
	}
	return queue.NewWorker(queue.WorkerOptions{Store: w.b.Store.Queue, Keeper: w.b.Keeper, Mux: w.mux(), Fleet: w.b.Store.Fleet, Queues: w.o.Queues, Slots: w.o.Slots,
		Grace: max(w.o.Grace, 1), StopGrace: w.o.StopGrace + killGrace, Hurry: w.o.Hurry, Keep: w.o.Keep, Holder: holder, Log: w.log,
		Listen: listen, Observe: w.o.Observe})
}

// mux registers the command as the handler.
func (w *Worker) mux() *queue.Mux {
	h, m := queue.Handler{Do: w.do, Timeout: w.o.Timeout, Rate: w.o.Rate}, &queue.Mux{}
	for _, k := range w.o.Kinds {
		m.Handle(k, h)
	}
	if len(w.o.Kinds) == 0 {
		m.HandleAny(h)
	}
	return m
}

// Run works tasks until ctx ends. Then it fetches nothing more, hands back tasks that have not begun, lets running
// commands continue for Grace, stops them, hands their tasks back without using an attempt, and returns nil. An
// error wraps lease.ErrUnavailable if the store did not answer at the start, and queue.ErrStuck if commands did not
// end.
func (w *Worker) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { w.told.Store(int64(w.b.Keeper.Boot())) })()
	return w.worker.Run(ctx)
}

// Close gives hooks the rest of the worker's time, some seconds, to report what is left, and releases everything.
func (w *Worker) Close() {
	if w.hooks != nil {
		passed := time.Duration(0)
		if told := w.told.Load(); told != 0 {
			passed = w.b.Keeper.Boot() - time.Duration(told)
		}
		ctx, cancel := context.WithTimeout(context.Background(), hookDrain(w.o.Grace, passed))
		defer cancel()
		w.hooks.Close(ctx)
	}
	w.inner.Close()
	w.b.Close()
	for _, p := range []interface{ Flush() }{w.out, w.err, w.lines} {
		p.Flush()
	}
}
