package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
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
}

const triggerHelp = `Run one job of a manifest once. A host's own scheduler calls this: cron, systemd, Kubernetes, EventBridge. Every server
may call it for the same tick: exactly one of them runs the job.

The tick is --tick, or the platform's DIBS_SCHEDULED_TIME, CRONJOB_SCHEDULED_TIMESTAMP or AWS_SCHEDULER_SCHEDULED_TIME
(RFC 3339). Without them it is the job's latest tick when cron forked this process, or else when it started, by the
store's clock; a tick at most 2 s ahead counts too. So three servers that start at :00.2, :01.9 and :04 agree on one tick.

The job's hooks report as under dibs serve. dibs trigger waits for them (2 minutes at most, or until a signal).

Exit status:
  0  succeeded
  1  rejected: the application refused the request for good (4xx)
  2  failed, or timed out
  3  lost, crashed, canceled, replaced; the store is unavailable; wrong usage
  4  not run here: held, claimed elsewhere, or not due (--contended-exit; 75 with --exit-tempfail)`

func newTrigger(e env) *cobra.Command {
	o := triggerOptions{}
	cmd := &cobra.Command{Use: "trigger APP.JOB", Short: "Run one job of a manifest once, for cron, systemd, Kubernetes or EventBridge", Long: triggerHelp,
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
		Example: "  dibs job trigger shop/invoices --manifest jobs.yaml --reason 'customer waits, T-123'",
		Args:    exactly(1, "one job, as APP/JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.tempfail && !cmd.Flags().Changed("contended-exit") {
				o.contendedExit = exitContended
			}
			return runTrigger(cmd.Context(), e, o, args[0])
		}}
	storeFlag(cmd, &o.store)
	o.sourceOptions.flags(cmd)
	manifestFlags(cmd, &o.serveOptions)
	o.manualFlags(cmd, "")
	o.fireFlags(cmd)
	return cmd
}

const jobTriggerHelp = `Run a job of a manifest now, on this machine, due or not: without a tick, and without using one up. The job's lease and
policy apply: with Forbid it does not run during another run. A pause stops ticks, not this. dibs records who triggered it
and why; dibs history shows it with the tick "manual". It is the same as dibs trigger --now, with the same exit statuses.`

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
	t := trigger{options: o}
	if err := t.prepare(ctx, e, name); err != nil {
		return statusError{triggerBroken, err}
	}
	accept, work, stop := stopped(ctx, t.lastGrace)
	defer stop() // last of all: until then a signal ends what waits, and not this process
	t.asked = accept
	defer t.close()
	rep := t.fire(accept, work)
	rep.ExitStatus = t.status(&rep)
	if err := rep.line(accept, to); err != nil {
		fmt.Fprintf(e.stderr, "dibs: --json: %v\n", err)
	}
	if host := t.places[job.Host]; host != nil && t.address.shared() {
		mirrorAfter(ctx, host, t.address.Config)
	}
	if !rep.Started.IsZero() && accept.Err() == nil {
		for _, place := range t.places {
			retainAfter(ctx, place)
		}
	}
	if rep.ExitStatus == 0 && rep.err == nil {
		return nil
	}
	return statusError{rep.ExitStatus, rep.err}
}

// trigger is one fire: a service that is not served.
type trigger struct {
	*service
	options triggerOptions
	spec    *job.Spec
	read    *reading
}

// prepare finds the job in the manifest.
func (t *trigger) prepare(ctx context.Context, e env, name string) error {
	o := t.options.serveOptions
	a, err := resolve(o.store)
	if err != nil {
		return err
	}
	mark := "." // as triggers of other schedulers have it; dibs's own names have a slash
	if strings.Contains(name, "/") {
		mark = "/"
	}
	app, jobName, ok := strings.Cut(name, mark)
	if !ok {
		return fmt.Errorf("%q: name the job as APP/JOB or APP.JOB", name)
	}
	if o.source == "" {
		return errors.New("no manifest: name the job's manifest with --manifest, or in DIBS_MANIFEST")
	}
	from, err := o.open(e, o.source)
	if err != nil {
		return err
	}
	o.source = from.String()
	t.service = &service{serveOptions: o, env: e, address: a, from: from, bare: true,
		places: map[job.Scope]*opened{}, hooks: map[job.Scope]*hook.Runner{}, servers: map[job.Scope]*scheduler.Server{}}
	t.log = o.quietLogger(e.stderr)
	t.inner = newInner(a, t.log)
	if t.read, err = t.load(ctx); err != nil {
		return err
	}
	t.app = t.read.app
	var known []string
	for _, spec := range t.read.specs {
		if known = append(known, spec.App+"."+spec.Name); spec.App == app && spec.Name == jobName {
			t.spec = spec
		}
	}
	if t.spec == nil {
		return fmt.Errorf("%s declares no job %s; it has %s", t.source, name, strings.Join(known, ", "))
	}
	return nil
}

// lastGrace is what is left to this process once it was told twice to end.
func (t *trigger) lastGrace() time.Duration { return t.spec.Policy.StopGrace + forcedAfter }

// fire opens the job's place, finds the tick and carries it out.
func (t *trigger) fire(accept, work context.Context) report {
	rep := report{Key: t.spec.Key()}
	if err := t.place(accept, t.spec.Policy.Scope); err != nil {
		t.unclaimed(err)
		return rep.broken(accept, err)
	}
	j, err := t.ready()
	if err != nil {
		return rep.broken(accept, err)
	}
	place := t.places[t.spec.Policy.Scope]
	if t.options.now {
		res := place.TriggerNow(accept, work, j, t.options.idempotency, &run.Cause{By: whoami(place.Self.Host), Why: t.options.why})
		return t.report(accept, rep, res, tick.Answer{Status: tick.Won})
	}
	now, err := place.Keeper.Now(accept)
	if err != nil {
		return rep.broken(accept, err)
	}
	if j.Dormant {
		rep.Outcome = notHere
		rep.err = fmt.Errorf("%s: not run here: its environments are %s, and this server's is %q (--environment, DIBS_ENVIRONMENT)",
			rep.Key, strings.Join(t.spec.Environments, ", "), t.options.environment)
		return rep
	}
	at, due, err := t.scheduled(j, now)
	switch {
	case err != nil:
		return rep.broken(accept, err)
	case !due:
		rep.Outcome, rep.err = notDue, t.notDue(j, at, now)
		return rep
	}
	if !j.Open(at) {
		rep.Tick, rep.Outcome, rep.Reason = at, run.Skipped, run.ReasonWindow
		rep.err = fmt.Errorf("%s: skipped: its tick %s is outside the windows in which it may run", rep.Key, stampOf(at))
		return rep
	}
	if t.spec.Policy.Scope == job.Global {
		remember(place)
	}
	res, a, err := place.Trigger(accept, work, j, at)
	if rep.Tick = at; err != nil && res.Run.ID == "" {
		if t.spec.Policy.Scope == job.Global {
			noteUnclaimed(t.address.Config, j, rep.Key, at, err)
		}
		return rep.broken(accept, err)
	}
	return t.report(accept, rep, res, a)
}

// ready builds the job and sets its hooks; its place is open.
func (t *trigger) ready() (*scheduler.Job, error) {
	set, err := t.hooksFor(t.spec, t.read.env)
	if err != nil {
		return nil, err
	}
	set()
	return t.build(t.spec, t.read.env)
}

// unclaimed keeps a note of the tick for which no store was found.
func (t *trigger) unclaimed(cause error) {
	if t.spec.Policy.Scope != job.Global || t.options.now {
		return
	}
	j, err := t.build(t.spec, t.read.env)
	if err != nil || j.Dormant {
		return
	}
	if at, due, err := t.scheduled(j, clock.System.Wall()); err == nil && due && j.Open(at) {
		noteUnclaimed(t.address.Config, j, t.spec.Key(), at, cause)
	}
}

// scheduled is the tick that this fire is for: a given one, or the one that is inferred.
func (t *trigger) scheduled(j *scheduler.Job, now time.Time) (at time.Time, due bool, err error) {
	from, text := "--tick", t.options.tick
	for _, name := range []string{"DIBS_SCHEDULED_TIME", "CRONJOB_SCHEDULED_TIMESTAMP", "AWS_SCHEDULER_SCHEDULED_TIME"} {
		if text == "" {
			from, text = name, os.Getenv(name)
		}
	}
	if text == "" {
		if at, due = j.Due(now.Add(-firedAgo()), now); !due {
			// A loop that cron started once fires for as long as it goes on.
			at, due = j.Due(now, now)
		}
		return at, due, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err != nil {
		return at, false, fmt.Errorf("%s %q: want an instant such as 2026-03-01T04:15:00Z", from, text)
	}
	at = at.UTC()
	if prev, ok := j.Set().Prev(at); !ok || !prev.Equal(at) {
		next, _ := j.Set().Next(at)
		return at, false, fmt.Errorf("%s %s is no tick of %s: the nearest ones are %s and %s", from, text, t.spec.Key(), prev.Format(time.RFC3339), next.Format(time.RFC3339))
	}
	if at.After(now.Add(tick.Ahead)) {
		return at, false, fmt.Errorf("%s %s is in the future: the store's time is %s; want a tick that is due, at most %s ahead", from, text, now.Format(time.RFC3339), tick.Ahead)
	}
	return at, !j.StartBy(at).Before(now), nil
}

func (t *trigger) notDue(j *scheduler.Job, at, now time.Time) error {
	next, _ := j.Set().Next(now)
	return fmt.Errorf("%s: not due: its last tick was at %s, too long ago to start (the latest start was %s), and the next one is at %s; the store's time is %s",
		t.spec.Key(), at.Format(time.RFC3339), j.StartBy(at).Format(time.RFC3339), next.Format(time.RFC3339), now.Format(time.RFC3339))
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
func (t *trigger) report(accept context.Context, rep report, res scheduler.Result, a tick.Answer) report {
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
		rep.Reason = t.places[t.spec.Policy.Scope].WhyPaused(context.Background(), rep.Key)
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
	t.logger(t.stderr).Info("not run here: "+string(rep.Outcome), "event", "lock-contended", "app", t.spec.App, "job", t.spec.Name,
		"tick", stampOf(rep.Tick), "run_id", holder.RunID, "scope", t.spec.Policy.Scope, "holder", holder)
}

// ranStatus is the exit status of what ran.
func (t *trigger) ranStatus(res scheduler.Result) int {
	switch res.Outcome {
	case run.Succeeded:
		return 0
	case run.TimedOut:
		return triggerFailed
	case run.Failed:
		if t.spec.Request != nil && rejected(res.Run.Attempts) {
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
