package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/serve"
	"github.com/dibs-run/dibs/task"
)

// workOptions are the flags of `dibs work`.
type workOptions struct {
	store               string
	queues, kinds       []string
	slots               int
	grace, stopGrace    time.Duration
	timeout, postpone   time.Duration
	rate, metrics       string
	logJSON, verbose    bool
	args                []string
	keepSuccess, keepIt time.Duration
	hooks               taskHooks
}

const workHelp = `Run a command, in any language, once for each task of one or more queues. The command gets

  standard input        the task's arguments, as JSON
  DIBS_TASK             its id: the same in every attempt, so use it to recognise repetitions
  DIBS_KIND DIBS_QUEUE  its kind and its queue
  DIBS_ATTEMPT          1 for the first attempt
  DIBS_TOKEN            its fencing token, larger in every attempt: refuse a write whose token
                        is smaller than one that you have seen

and reports with its exit status:

  0       success
  75      not now: the task comes back after --postpone, and uses no attempt
  others  a failed attempt; its error is the end of the command's output

All tasks of this process are under one lease. If the lease is lost, dibs stops the commands and everything that they
started BEFORE another worker can get the tasks. If this process is killed, its commands die with it, and other workers
take over its tasks within one TTL (15 s by default).

After SIGTERM or SIGINT, dibs fetches no more tasks, and hands back those that it has not started. Running commands have
--grace to end. Then dibs stops them, kills them after --stop-grace, and hands their tasks back; that uses no attempt.
With the defaults all of this takes less than the 30 s that Kubernetes gives. A second signal ends the grace at once.

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
	f.DurationVar(&o.keepSuccess, "keep-succeeded", queue.Retention[task.Succeeded], "how long succeeded tasks are kept")
	f.DurationVar(&o.keepIt, "keep", queue.Retention[task.Failed], "how long failed, crashed, discarded and canceled tasks are kept")
	f.StringArrayVar(&o.hooks.texts, "hook", nil, "report events of tasks: `EVENTS=TARGET`; may be repeated")
	f.StringVar(&o.hooks.secret, "hook-secret", "", "the secret that signs webhooks: `env:NAME` or file:/path")
	f.DurationVar(&o.hooks.timeout, "hook-timeout", job.DefaultHookTimeout, "bounds each attempt of a report")
	metricsFlag(cmd, &o.metrics)
	f.BoolVar(&o.logJSON, "log-json", false, logJSONHelp)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log each task")
	return cmd
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

// options are what a worker of these flags works with.
func (o workOptions) options(e env, log *slog.Logger) (w serve.WorkerOptions, err error) {
	w = serve.WorkerOptions{Command: o.args, Queues: o.queues, Kinds: o.kinds, Slots: o.slots, Timeout: o.timeout, Postpone: orNone(o.postpone),
		Grace: orNone(o.grace), StopGrace: orNone(o.stopGrace), StateDir: hostDir(), Logger: log}
	if o.rate != "" {
		if w.Rate, err = parseRate(o.rate); err != nil {
			return w, err
		}
		if len(o.kinds) == 0 {
			return w, errors.New("--rate needs kinds: name them with --kind")
		}
	}
	w.Keep = map[task.State]time.Duration{task.Succeeded: o.keepSuccess, task.Failed: o.keepIt, task.Crashed: o.keepIt,
		task.Discarded: o.keepIt, task.Canceled: o.keepIt}
	if w.Output, w.Errors = e.stdout, output.Behind(e.stderr); o.logJSON {
		w.Output, w.Errors, w.Lines = nil, nil, e.stderr
	}
	return w, nil
}

func runWork(ctx context.Context, e env, o workOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	log := serveOptions{logJSON: o.logJSON, verbose: o.verbose}.logger(e.stderr)
	of, err := o.options(e, log)
	if err != nil {
		return usage(err)
	}
	reap()
	ctx, hurry, stop := stoppedTwice(ctx, func() time.Duration { return o.stopGrace + forcedAfter }, endings...)
	defer stop()
	of.Hurry = hurry.Done()
	a, err := resolve(o.store)
	if err != nil {
		return usage(err)
	}
	if of.Hooks, of.HookSecret, err = o.hooks.parse(); err != nil {
		return err
	}
	counters, observer := counting(o.metrics)
	of.Observe = observer
	manager := newNotifier()
	w, err := serve.NewWorker(ctx, a.at(), of)
	if status := unstartable(err); status != 0 {
		return statusError{status, err}
	}
	if err != nil {
		return refused(err)
	}
	defer w.Close()
	stopMetrics, err := showMetrics(ctx, log, a, o.metrics, counters, nil)
	if err != nil {
		return err
	}
	defer stopMetrics()
	useScopes(ctx, log)
	manager.ready("working %s", strings.Join(o.queues, " "))
	context.AfterFunc(ctx, manager.stopping)
	over := make(chan struct{})
	defer close(over)
	go manager.live(over, func() {})
	err = w.Run(ctx)
	if errors.Is(err, lease.ErrUnavailable) {
		return statusError{exitUnavailable, err}
	}
	return err
}
