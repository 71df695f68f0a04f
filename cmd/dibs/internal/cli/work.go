package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/command"
)

// workOptions are the flags of `dibs work`.
type workOptions struct {
	store               string
	queues, kinds       []string
	slots               int
	grace, stopGrace    time.Duration
	timeout, postpone   time.Duration
	rate                string
	logJSON, verbose    bool
	args                []string
	keepSuccess, keepIt time.Duration
	hooks               taskHooks
}

const workHelp = `Run a command, in any language, for each task of one or more queues:
standard input       the task's arguments, as JSON
  DIBS_TASK            its id; the same in every attempt, so use it to recognise repetitions
  DIBS_KIND DIBS_QUEUE its kind and its queue
  DIBS_ATTEMPT         from 1
  DIBS_TOKEN           its fencing token: larger in every attempt; refuse writes with a smaller one than seen
  exit status 0        success
              75       not now: the task comes back after --postpone, and uses no attempt
              others   a failed attempt; the end of the output is its error

All tasks of the process are under one lease. If it is lost, dibs stops the commands and everything that they started
BEFORE another worker can get the tasks. If the process is killed, its commands die with it, and other workers take its
tasks within one TTL (15 s).

SIGTERM and SIGINT stop gracefully: dibs fetches nothing more, and hands back tasks that have not started. Running commands
get --grace to end by themselves; then dibs stops them, kills them after --stop-grace, and hands their tasks back without
using an attempt. By default this takes less than the 30 s that Kubernetes gives. A second signal ends the grace at once.

` + taskHooksHelp

func newWork(e env) *cobra.Command {
	o := workOptions{}
	cmd := &cobra.Command{Use: "work QUEUE… [flags] -- COMMAND [ARG…]", Short: "Run a command for each task of one or more queues", Long: workHelp,
		Example: `  dibs work mail -- php worker.php
  dibs work default slow --slots 4 --kind resize -- ./resize.sh
  dibs work mail --kind send --rate 10/1s -- ./send
  dibs work mail --hook failure,crash=https://chat.example/hook --hook retry='logger -t mail' -- php worker.php`,
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			if at < 0 || at == len(args) {
				return fmt.Errorf("%w: no command; write it after --, as in: dibs work QUEUE -- COMMAND", errUsage)
			}
			o.queues, o.args = args[:at], args[at:]
			return runWork(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	f := cmd.Flags()
	f.StringSliceVar(&o.kinds, "kind", nil, "only these kinds of task (default: any)")
	f.IntVar(&o.slots, "slots", 1, "how many tasks run at the same time")
	f.DurationVar(&o.timeout, "timeout", 0, "bounds an attempt of tasks without their own timeout (0: none)")
	f.DurationVar(&o.postpone, "postpone", 30*time.Second, "when a task that exits 75 comes back")
	f.DurationVar(&o.grace, "grace", queue.DefaultGrace, "how long running tasks may go on after SIGTERM")
	f.DurationVar(&o.stopGrace, "stop-grace", 10*time.Second, "time between TERM and KILL when a command is stopped")
	f.StringVar(&o.rate, "rate", "", "at most `N/D` tasks of each --kind, by all workers together, such as 10/1s")
	f.DurationVar(&o.keepSuccess, "keep-succeeded", queue.Retention[queue.Succeeded], "how long succeeded tasks are kept")
	f.DurationVar(&o.keepIt, "keep", queue.Retention[queue.Failed], "how long failed, crashed, discarded and canceled tasks are kept")
	f.StringArrayVar(&o.hooks.texts, "hook", nil, "report events of tasks: `EVENTS=TARGET`; may be repeated")
	f.StringVar(&o.hooks.secret, "hook-secret", "", "the secret that signs webhooks: `env:NAME` or file:/path")
	f.DurationVar(&o.hooks.timeout, "hook-timeout", job.DefaultHookTimeout, "bounds each attempt of a report")
	f.BoolVar(&o.logJSON, "log-json", false, logJSONHelp)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log each task")
	return sayingAll(cmd)
}

// mux makes the command the handler.
func (o workOptions) mux(w *commandWork) (*queue.Mux, error) {
	h := queue.Handler{Do: w.do, Timeout: o.timeout}
	if o.rate != "" {
		r, err := parseRate(o.rate)
		if err != nil {
			return nil, usage(err)
		}
		if len(o.kinds) == 0 {
			return nil, usage(errors.New("--rate needs kinds: name them with --kind"))
		}
		h.Rate = r
	}
	m := &queue.Mux{}
	for _, k := range o.kinds {
		m.Handle(k, h)
	}
	if len(o.kinds) == 0 {
		m.HandleAny(h)
	}
	return m, nil
}

func parseRate(s string) (r queue.Rate, err error) {
	n, per, ok := strings.Cut(s, "/")
	if ok {
		r.Count, err = strconv.Atoi(n)
	}
	if ok && err == nil {
		r.Per, err = time.ParseDuration(per)
	}
	if !ok || err != nil || r.Count < 1 || r.Per <= 0 {
		return r, fmt.Errorf("--rate %q: want a number and a duration, such as 10/1s", s)
	}
	return r, nil
}

func (o workOptions) check() error {
	if o.slots < 1 {
		return usage(fmt.Errorf("--slots %d: want 1 at least", o.slots))
	}
	for flag, d := range map[string]time.Duration{"grace": o.grace, "stop-grace": o.stopGrace, "timeout": o.timeout, "postpone": o.postpone, "hook-timeout": o.hooks.timeout,
		"keep-succeeded": o.keepSuccess, "keep": o.keepIt} {
		if d < 0 {
			return usage(fmt.Errorf("--%s %s: it is negative", flag, d))
		}
	}
	return nil
}

func runWork(ctx context.Context, e env, o workOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	log := serveOptions{logJSON: o.logJSON, verbose: o.verbose}.logger(e.stderr)
	w := &commandWork{workOptions: o, log: log, out: newPrinter(asIs(e.stdout)), err: newPrinter(behind(e.stderr)), lines: newLineLog(e.stderr)}
	defer w.flush()
	m, err := o.mux(w)
	if err != nil {
		return err
	}
	ctx, hurry, stop := stoppedTwice(ctx, func() time.Duration { return o.stopGrace + forcedAfter }, endings...)
	defer stop()
	a, err := resolve(o.store)
	if err != nil {
		return usage(err)
	}
	p, err := openQueueAt(ctx, e, a)
	if err != nil {
		return err
	}
	defer p.close()
	manager := newNotifier()
	w.inner = newInner(a, log)
	defer w.inner.close()
	useScopes(ctx, log)
	hooks, err := o.hooks.runner(p, w)
	if err != nil {
		return err
	}
	var told atomic.Pointer[time.Time]
	context.AfterFunc(ctx, func() { now := time.Now(); told.Store(&now) })
	defer func() { closeTaskHooks(hooks, o.grace, told.Load()) }()
	keep := map[queue.State]time.Duration{queue.Succeeded: o.keepSuccess, queue.Failed: o.keepIt, queue.Crashed: o.keepIt,
		queue.Discarded: o.keepIt, queue.Canceled: o.keepIt}
	holder := p.Self
	holder.Command = "dibs work " + strings.Join(o.queues, " ")
	var listen func(queue.Happening)
	if hooks != nil {
		listen = hooks.TellTask
	}
	worker, err := queue.NewWorker(queue.WorkerOptions{Store: p.store.Queue, Keeper: p.Keeper, Mux: m, Queues: o.queues, Slots: o.slots,
		Grace: max(o.grace, 1), StopGrace: o.stopGrace + killGrace, Hurry: hurry.Done(), Keep: keep, Holder: holder, Log: log,
		Listen: listen})
	if err != nil {
		return usage(err)
	}
	manager.ready("working %s", strings.Join(o.queues, " "))
	context.AfterFunc(ctx, manager.stopping)
	over := make(chan struct{})
	defer close(over)
	go manager.live(over, func() {})
	err = worker.Run(ctx)
	if errors.Is(err, lease.ErrUnavailable) {
		return statusError{exitUnavailable, err}
	}
	return err
}

// killGrace is what a command may still take to be gone once it was killed: then its task is handed back, and not left
// to the lapse of the worker's lease.
const killGrace = 4 * time.Second

// commandWork does tasks with a command.
type commandWork struct {
	workOptions
	log      *slog.Logger
	out, err *printer // of what commands print
	lines    *lineLog // in their place, with --log-json

	inner *inner
}

// do runs the command for one task.
func (w *commandWork) do(ctx context.Context, r *queue.Run) error {
	runID := run.NewID()
	tail := w.output(r, runID)
	id := strconv.FormatInt(int64(r.ID), 10)
	t := command.Target{Args: w.args, Input: r.Args, Env: w.inner.environ(os.Environ()), Enter: w.inner.enter, ExtraEnv: []string{
		"DIBS_TASK=" + id, "DIBS_KIND=" + r.Kind, "DIBS_QUEUE=" + r.Queue, "DIBS_TAGS=" + strings.Join(r.Tags, ",")}}
	res := t.Attempt(ctx, run.Call{Run: run.Record{ID: runID, Job: r.Queue + "/" + r.Kind, Token: r.Token}, Attempt: r.Attempt,
		Lease: r.Lease, IdempotencyKey: "task/" + id, StopGrace: w.stopGrace, Output: tail})
	if res.Recorded != nil {
		res.Recorded()
	}
	tail.close()
	w.log.Debug("task", "task", r.ID, "kind", r.Kind, "attempt", r.Attempt, "outcome", res.Outcome, "status", res.Status)
	switch {
	case res.Outcome == run.Succeeded && !res.Stopped:
		return nil
	case res.Status == exitContended && !res.Stopped:
		return queue.Postpone(w.postpone)
	}
	err := res.Err
	if err == nil {
		err = fmt.Errorf("exit status %d", res.Status)
	}
	if end := tail.end(); end != "" {
		err = fmt.Errorf("%w\n%s", err, end)
	}
	if res.Final { // it could not be executed at all; another attempt may find it mended
		return fmt.Errorf("the command could not be started: %w", err)
	}
	return err
}

// output is where a task's command prints: on this process's streams, a piece at a time, or in the JSON log, line by
// line. An output that nobody reads holds up no task.
func (w *commandWork) output(r *queue.Run, runID string) *tailWriter {
	if !w.logJSON {
		return &tailWriter{to: func(s run.Stream, b []byte) {
			if s == run.Stderr {
				w.err.print(bytes.Clone(b))
				return
			}
			w.out.print(bytes.Clone(b))
		}}
	}
	log := w.lines.of(ofTask(int64(r.ID), r.Kind, r.Queue, r.Attempt, runID)...)
	lines := &linewise{put: func(s run.Stream, line []byte, partial bool) { log.put(s, line, partial, true) }}
	return &tailWriter{to: lines.write, over: lines.end}
}

func (w *commandWork) flush() {
	for _, p := range []*printer{w.out, w.err, w.lines.to} {
		p.flush()
	}
}

// tailWriter passes on what is printed, and keeps the end of it.
type tailWriter struct {
	to   func(run.Stream, []byte)
	over func() // nil: there is nothing to end

	mu   sync.Mutex
	last []byte
	done bool
}

const tailBytes = 4 << 10

func (t *tailWriter) Write(b []byte) (int, error) { return t.WriteStream(run.Stdout, b) }

// Apart is run.Streams's.
func (t *tailWriter) Apart() bool { return true }

// WriteStream is Write for one of the streams.
func (t *tailWriter) WriteStream(s run.Stream, b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done {
		t.last = appendEnd(t.last, b, tailBytes)
		t.to(s, b)
	}
	return len(b), nil
}

// close ends what has no line end; what is printed later is not passed on.
func (t *tailWriter) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done = true; t.over != nil {
		t.over()
	}
}

func (t *tailWriter) end() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(lastOf(t.last, tailBytes)), ""))
}
