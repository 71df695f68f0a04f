package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/deploy/kubernetes"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/serve"
	"github.com/dibs-run/dibs/tick"
)

// The exit statuses of `dibs trigger` that are its own.
const (
	triggerRejected = 1 // the application refused the request for good
	triggerFailed   = 2
	triggerBroken   = 3
	triggerSkipped  = 4
)

// triggerOptions are the flags of `dibs trigger`.
type triggerOptions struct {
	serveOptions
	tick, json    string
	now           bool
	idempotency   string
	why           string
	contendedExit int
	tempfail      bool
	quiet         bool
	out           format // of `dibs job trigger`
}

const triggerHelp = `Run one job of a manifest once. A host's own scheduler calls this: cron, systemd, Kubernetes, EventBridge. Every server
may call it for the same tick: exactly one of them runs the job.

The tick is --tick, or the platform's DIBS_SCHEDULED_TIME, CRONJOB_SCHEDULED_TIMESTAMP or AWS_SCHEDULER_SCHEDULED_TIME
(RFC 3339). Without them it is the job's latest tick when Kubernetes created the Job (by its name, in
DIBS_KUBERNETES_JOB, which dibs apply sets), or when cron forked this process, or else when it started, by the store's
clock; a tick at most 2 s ahead counts too. So three servers that start at :00.2, :01.9 and :04 agree on one tick.

Without --manifest and DIBS_MANIFEST, it is the manifest from which dibs apply installed the job on this host, with
the flags that apply was given.

The job's hooks report as under dibs serve. dibs trigger waits for them (2 minutes at most, or until a signal).

Exit status:
  0  succeeded
  1  rejected: the application refused the request for good (4xx)
  2  failed, or timed out
  3  lost, crashed, canceled, replaced; the store is unavailable; wrong usage
  4  not run here: held, claimed elsewhere, or not due (--contended-exit; 75 with --exit-tempfail)`

func newTrigger(e env) *cobra.Command {
	o := triggerOptions{}
	cmd := &cobra.Command{Use: "trigger APP.JOB", Short: "Run one job once, when cron, systemd or Kubernetes starts it", Long: triggerHelp,
		Example: "  15 4 1 * *  dibs trigger shop.invoices --manifest /etc/shop/jobs.yaml\n  dibs trigger shop.invoices --manifest jobs.yaml --tick 2026-03-01T04:15:00Z\n  dibs trigger shop.invoices --manifest jobs.yaml --now",
		Args:    exactly(1, "one job, as APP.JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.tempfail && !cmd.Flags().Changed("contended-exit") {
				o.contendedExit = exitContended
			}
			return runTrigger(cmd.Context(), e, o, args[0])
		}}
	storeFlag(cmd, &o.store)
	o.sourceOptions.flags(cmd)
	f := cmd.Flags()
	manifestFlags(cmd, &o.serveOptions)
	f.StringVar(&o.tick, "tick", "", "the scheduled `INSTANT`, as in 2026-03-01T04:15:00Z")
	f.BoolVar(&o.now, "now", false, "run it now, due or not: without a tick, and without using one up")
	o.manualFlags(cmd, "with --now: ")
	o.fireFlags(cmd)
	return cmd
}

// newJobTrigger is `dibs job trigger`: `dibs trigger --now`, among the other commands for jobs.
func newJobTrigger(e env) *cobra.Command {
	o := triggerOptions{now: true}
	cmd := &cobra.Command{Use: "trigger APP/JOB", Short: "Run a job now, without a tick", Long: jobTriggerHelp,
		Example: "  dibs job trigger shop/invoices --manifest jobs.yaml --reason 'customer waits, T-123'\n" +
			"  dibs job trigger shop/invoices --manifest jobs.yaml -o json",
		Args: exactly(1, "one job, as APP/JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.out.check(); err != nil {
				return statusError{triggerBroken, err}
			}
			if o.tempfail && !cmd.Flags().Changed("contended-exit") {
				o.contendedExit = exitContended
			}
			return runTrigger(cmd.Context(), e, o, args[0])
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	o.sourceOptions.flags(cmd)
	manifestFlags(cmd, &o.serveOptions)
	o.manualFlags(cmd, "")
	o.fireFlags(cmd)
	return cmd
}

const jobTriggerHelp = `Run a job of a manifest now, on this machine, due or not: without a tick, and without using one up. The job's lease and
policy apply: with Forbid it does not run during another run. A pause stops ticks, not this. dibs records who triggered it
and why; dibs history shows it with the tick "manual". It is the same as dibs trigger --now, with the same exit statuses.

-o json prints the result as one object: the run's id, its outcome, or the holder of the key. What the job itself prints
then goes to standard error.`

// manualFlags are those of a run without a tick.
func (o *triggerOptions) manualFlags(cmd *cobra.Command, when string) {
	f := cmd.Flags()
	f.StringVar(&o.idempotency, "idempotency-key", "", when+"passed to the job, so that it can recognise a repetition\n(default: the run's id)")
	f.StringVar(&o.why, "reason", "", when+"why; recorded with the run")
}

// fireFlags are those of any fire.
func (o *triggerOptions) fireFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.contendedExit, "contended-exit", triggerSkipped, "exit status when the job does not run here")
	f.BoolVar(&o.tempfail, "exit-tempfail", false, "the same as --contended-exit 75")
	f.StringVar(&o.json, "json", "", "write the result as JSON to this `FILE`, or descriptor number")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing on contention; the default under a cron daemon")
}

// runTrigger carries out `dibs trigger`. Nothing has been started when it refuses.
func runTrigger(ctx context.Context, e env, o triggerOptions, name string) error {
	if o.contendedExit < 0 || o.contendedExit > 255 {
		return statusError{triggerBroken, fmt.Errorf("--contended-exit %d: want 0-255", o.contendedExit)}
	}
	if o.now && o.tick != "" || (o.idempotency != "" || o.why != "") && !o.now {
		return statusError{triggerBroken, errors.New("--now runs without a tick: leave out --tick; --idempotency-key and --reason need --now")}
	}
	to, err := openReport(o.json) // before anything else is opened
	if err != nil {
		return statusError{triggerBroken, fmt.Errorf("--json %s: %w", o.json, err)}
	}
	defer to.Close()
	stdout := e.stdout
	if o.out == "json" {
		e.stdout = e.stderr // what the job prints
	}
	reap()
	t := trigger{options: o, env: e}
	if err := t.prepare(ctx, e, name); err != nil {
		return statusError{triggerBroken, err}
	}
	accept, work, stop := stopped(ctx, t.lastGrace)
	defer stop() // last of all: until then a signal ends what waits, and not this process
	defer t.end()
	rep := t.fire(accept, work)
	rep.ExitStatus = t.status(&rep)
	if err := rep.line(accept, to); err != nil {
		fmt.Fprintf(e.stderr, "dibs: --json: %v\n", err)
	}
	if o.out == "json" {
		if err := rep.object(accept, stdout); err != nil {
			fmt.Fprintf(e.stderr, "dibs: -o json: %v\n", err)
		}
	}
	t.job.Tidy(ctx)
	if rep.ExitStatus == 0 && rep.err == nil {
		return nil
	}
	return statusError{rep.ExitStatus, rep.err}
}

// trigger is one fire.
type trigger struct {
	env
	options triggerOptions
	job     *serve.Job
}

// prepare finds the job in the manifest.
func (t *trigger) prepare(ctx context.Context, e env, name string) error {
	o := t.options.serveOptions
	if o.source == "" {
		if err := o.recall(name); err != nil {
			return err
		}
	}
	a, err := resolve(o.store)
	if err != nil {
		return err
	}
	m := serve.Manifest{}
	if o.source != "" {
		if m, err = o.manifest(e, o.source); err != nil {
			return err
		}
	}
	of := o.options(a, e, o.quietLogger(e.stderr))
	if t.job, err = serve.Find(ctx, a.at(), m, name, of); err != nil {
		return err
	}
	return t.boxed()
}

// lastGrace is what is left to this process once it was told twice to end.
func (t *trigger) lastGrace() time.Duration { return t.job.Spec().Policy.StopGrace + forcedAfter }

// end waits for the hooks, unless somebody asks this process to end.
func (t *trigger) end() {
	ctx, stop := signal.NotifyContext(context.Background(), endings...)
	defer stop()
	t.job.Close(ctx)
}

// fire finds the tick and carries it out.
func (t *trigger) fire(accept, work context.Context) report {
	rep := report{Key: t.key()}
	f, err := t.asked(accept)
	if err != nil {
		return rep.broken(accept, err)
	}
	got, err := t.job.Trigger(work, f)
	rep.Tick = got.Tick
	switch {
	case errors.Is(err, serve.ErrNotHere):
		rep.Outcome, rep.err = notHere, fmt.Errorf("%w (--environment, DIBS_ENVIRONMENT)", err)
	case errors.Is(err, serve.ErrNotDue):
		rep.Outcome, rep.err = notDue, err
	case errors.Is(err, serve.ErrWindow):
		rep.Outcome, rep.Reason, rep.err = run.Skipped, run.ReasonWindow, err
	case err != nil:
		return rep.broken(accept, err)
	default:
		return t.report(accept, rep, got)
	}
	return rep
}

func (t *trigger) key() string {
	spec := t.job.Spec()
	return spec.Key()
}

// asked is the fire that the flags and the platform ask for.
func (t *trigger) asked(accept context.Context) (f serve.Fire, err error) {
	f = serve.Fire{Accept: accept, Ago: firedAgo()}
	if t.options.now {
		host, _ := os.Hostname()
		f.Manual = &serve.Manual{IdempotencyKey: t.options.idempotency, By: whoami(host), Why: t.options.why}
		return f, nil
	}
	from, text := "--tick", t.options.tick
	for _, name := range []string{"DIBS_SCHEDULED_TIME", "CRONJOB_SCHEDULED_TIMESTAMP", "AWS_SCHEDULER_SCHEDULED_TIME"} {
		if text == "" {
			from, text = name, os.Getenv(name)
		}
	}
	if text == "" {
		f.At, _ = kubernetesTime(os.Getenv(kubernetes.JobVariable), time.Now())
		return f, nil
	}
	f.Called = from + " " + text
	if f.Tick, err = time.Parse(time.RFC3339, text); err != nil {
		err = fmt.Errorf("%s %q: want an instant such as 2026-03-01T04:15:00Z", from, text)
	}
	return f, err
}

// kubernetesTime is the scheduled time that the name of a CronJob's Job ends with, in minutes since 1970. ok is false
// for other names, such as those that people give, and for a number that is no time near now: for one ahead, a pod
// waits until then.
func kubernetesTime(name string, now time.Time) (at time.Time, ok bool) {
	_, end, _ := cutLast(name, "-")
	n, err := strconv.ParseInt(end, 10, 32)
	if err != nil {
		return at, false
	}
	const day = 24 * time.Hour
	if at = time.Unix(n*60, 0).UTC(); at.Before(now.Add(-365*day)) || at.After(now.Add(day)) {
		return time.Time{}, false
	}
	return at, true
}

// broken is the report of a fire that got nowhere.
func (rep report) broken(accept context.Context, err error) report {
	rep.Outcome, rep.err = run.Failed, err
	var sig signaled
	switch {
	case errors.As(context.Cause(accept), &sig):
		rep.Outcome, rep.err = run.Canceled, fmt.Errorf("%s: %w before it was started", rep.Key, sig)
	case errors.Is(err, tick.ErrTooLate):
		rep.Outcome = notDue
	case errors.Is(err, lease.ErrUnavailable):
		rep.Outcome = run.Unavailable
	}
	rep.status = triggerBroken
	return rep
}

// report words what became of the tick.
func (t *trigger) report(accept context.Context, rep report, got serve.Fired) report {
	res, a := got.Result, got.Answer
	rep.Outcome, rep.Reason, rep.err = res.Outcome, res.Reason, res.Err
	switch {
	case res.Run.ID != "":
		rep.RunID, rep.Token, rep.Started, rep.Ended = res.Run.ID, res.Run.Token, res.Run.Started, res.Run.Ended
		rep.status = t.ranStatus(res)
		if res.Outcome != run.Succeeded {
			rep.err = errors.Join(rep.err, fmt.Errorf("%s: %s: %s", rep.Key, res.Outcome, res.Reason))
		}
	case a.Status == tick.Differs:
		rep.Outcome, rep.status = run.Failed, triggerBroken
		rep.err = fmt.Errorf("%s: another server loaded another definition of this job at the same time; use the same manifest everywhere", rep.Key)
	case a.Status == tick.Paused:
		rep.Outcome = run.Paused
		rep.Reason = got.Paused
		rep.err = fmt.Errorf("%s: not run: %s", rep.Key, rep.Reason)
	case a.Status != tick.Won:
		rep.Outcome = duplicate
		by := a.Tick.Claimant
		by.RunID = a.Tick.RunID
		t.contended(&rep, by)
	case res.Held != nil:
		rep.Outcome = contended
		t.contended(&rep, res.Held.Record.Holder)
	case res.Err != nil:
		return rep.broken(accept, res.Err)
	case res.Outcome == run.Skipped:
		rep.err = fmt.Errorf("%s: skipped: its condition (when) said no", rep.Key)
	default:
		rep.status = triggerBroken
	}
	return rep
}

// contended tells who has it, in one line (promise 24).
func (t *trigger) contended(rep *report, holder lease.Holder) {
	if holder.Host != "" {
		rep.HeldBy = &holder
	}
	if t.silent() {
		return
	}
	spec := t.job.Spec()
	t.options.logger(t.stderr).Info("not run here: "+string(rep.Outcome), "event", "lock-contended", "app", spec.App, "job", spec.Name,
		"tick", stampOf(rep.Tick), "run_id", holder.RunID, "scope", spec.Policy.Scope, "holder", holder)
}

// ranStatus is the exit status of what ran.
func (t *trigger) ranStatus(res scheduler.Result) int {
	switch res.Outcome {
	case run.Succeeded:
		return 0
	case run.TimedOut:
		return triggerFailed
	case run.Failed:
		if t.job.Spec().Request != nil && rejected(res.Run.Attempts) {
			return triggerRejected
		}
		return triggerFailed
	}
	return triggerBroken
}

// rejected says whether the last attempt was answered by a refusal that is final.
func rejected(attempts []run.Attempt) bool {
	if len(attempts) == 0 {
		return false
	}
	s := attempts[len(attempts)-1].Status
	return s >= 400 && s < 500 && s != http.StatusRequestTimeout && s != http.StatusTooManyRequests
}

// status is the exit status; it silences what nobody is to hear of.
func (t *trigger) status(rep *report) int {
	switch rep.Outcome {
	case contended, duplicate, notDue, notHere, run.Paused, run.Skipped:
		if t.silent() {
			rep.err = nil
		}
		return t.options.contendedExit
	}
	return rep.status
}

// silent says that not running is nobody's news: cron mails on output, not on status.
func (t *trigger) silent() bool { return t.options.quiet || underCron() }
