package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/internal/nested"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/scheduler"
)

// runOptions are the flags of `dibs run`.
type runOptions struct {
	store, key, oncePer, zone, dst, scope, policy string
	onCrash, leftovers, json                      string
	wait, timeout, stopGrace                      time.Duration
	contendedExit                                 int
	quiet, noOutput, now                          bool
	pings, args                                   []string
	dashed                                        bool // there is a -- before args
}

const runHelp = `Run a command under a lease: at most one process in the whole fleet holds the key at a time.

If the lease is lost (the store is unreachable for too long, or a person broke it), dibs stops the command and everything
that it started BEFORE another process can get the key. The command's fencing token is in DIBS_TOKEN, and the run's id in
DIBS_RUN_ID.

The command gets the open descriptors of dibs's caller, and the terminal if dibs is in its foreground and prints into no
pipe. Ctrl-Z does nothing then: a stopped command would keep its lease.

dibs keeps the last 64 KiB of the command's output in the history: dibs history KEY --log. The output also goes where it
always went, byte for byte. Output to a terminal is not kept. Nothing is kept with --no-output, nor with --leftovers leave,
because processes that are left go on printing after dibs has ended.

--ping reports each run to a dead-man's switch, such as healthchecks.io: URL/start, then URL or URL/fail, with the end of
the kept output. A skipped run pings nothing. The work never waits for a ping. When the lease is free, the pings have 10 s
at most. A failed ping is a warning and does not change the exit status. The URL is a secret, and other users can see
arguments: write it into DIBS_PING or a file.

Exit status: the command's own, 128+n if signal n killed it, and
   69  the store is unavailable; nothing was started
   75  contended: the key is held, or this tick was claimed elsewhere (--contended-exit)
   79  the lease was lost, and dibs stopped the command
  124  timed out (--timeout)
  125  dibs itself failed, or was used wrongly
  126  the command cannot be executed      127  the command was not found`

const runExamples = `  # in the crontab of every server: exactly one of them runs it, once per tick
  15 4 1 * *  dibs run --key invoices --once-per '15 4 1 * *' -- php generateInvoices.php

  dibs run --key deploy --wait 10m -- ./deploy.sh         wait up to 10 minutes for the key
  dibs run --key sync --policy replace -- ./sync.sh       stop the running one, then start
  dibs run --key report --once-per 1h -- ./report.sh      not within an hour of the last start
  dibs run --now --key report --once-per 1h -- ./report.sh  try that line now`

func newRun(e env) *cobra.Command {
	o := runOptions{}
	cmd := &cobra.Command{Use: "run --key KEY [flags] -- COMMAND [ARG…]", Short: "Run a command under a lease", Long: runHelp, Example: runExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args, o.dashed = args, cmd.ArgsLenAtDash() >= 0
			return runRun(cmd.Context(), e, o)
		}}
	f := cmd.Flags()
	f.SetInterspersed(false)
	storeFlag(cmd, &o.store)
	f.StringVar(&o.key, "key", "", "the lease's key (in host scope it defaults to the command line)")
	f.StringVar(&o.oncePer, "once-per", "", "run once per tick of this cron expression in the whole fleet, or not within\nthis duration of the last start; `CRON|D`, or none to use a lock only")
	f.BoolVar(&o.now, "now", false, "run now, due or not, and use no tick up: to try a line of a crontab")
	f.StringVar(&o.zone, "tz", "", "the zone of --once-per (default $CRON_TZ, $TZ, the host's)")
	f.StringVar(&o.dst, "dst", "vixie", "fixed times of --once-per when clocks change: vixie (once), skip (skipped times are\nnot due) or repeat (as often as the clock shows them)")
	f.StringVar(&o.scope, "scope", "", "host or global (default global on a shared store)")
	f.StringVar(&o.policy, "policy", "forbid", "when the key is held: forbid, allow, replace or wait")
	f.DurationVar(&o.wait, "wait", 0, "with forbid: wait this long for the key")
	f.DurationVar(&o.timeout, "timeout", 0, "stop the command after this long (0: never)")
	f.DurationVar(&o.stopGrace, "stop-grace", 10*time.Second, "time between TERM and KILL when the command is stopped")
	f.StringVar(&o.onCrash, "on-crash", "skip", "with --once-per CRON: rerun: the other servers stand by, and one of them runs the\ntick if its server crashes; skip: they do not")
	f.StringVar(&o.leftovers, "leftovers", "wait", "processes that outlive the command: wait for them, kill them, or leave them")
	f.IntVar(&o.contendedExit, "contended-exit", exitContended, "exit status when the key is held or the tick was claimed elsewhere")
	f.StringVar(&o.json, "json", "", "write the result as JSON to this `FILE`, or descriptor number")
	f.StringArrayVar(&o.pings, "ping", nil, "ping this dead-man's switch at start, success and failure: `URL`, env:NAME or file:/path;\nmay be repeated (default $DIBS_PING)")
	f.BoolVar(&o.noOutput, "no-output", false, "do not keep the command's output; it gets dibs's own streams")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing on contention")
	return cmd
}

// misplaced finds a --key between the first word and a --, both of which a command's own arguments hardly have.
func misplaced(args []string) string {
	dash := max(slices.Index(args, "--"), 0)
	key := slices.IndexFunc(args[:dash], func(a string) bool { return a == "--key" || strings.HasPrefix(a, "--key=") })
	if key < 0 {
		return ""
	}
	return args[key]
}

// plan is a checked command line.
type plan struct {
	runOptions
	address address
	host    bool // scope host
	key     lease.Key
	once    once
	fire    scheduler.Fire
	cron    bool // started by a cron daemon
	ping    pings
}

// silent reports whether to print nothing on contention: cron mails what is printed, whatever the status.
func (p plan) silent() bool { return p.quiet || p.cron }

// check turns flags into a plan; nothing has been started when it refuses.
func (o runOptions) check() (plan, error) {
	p := plan{runOptions: o, cron: underCron()}
	if len(o.args) == 0 {
		return p, errors.New("no command; write it after --, as in: dibs run --key KEY -- COMMAND")
	}
	if f := misplaced(o.args); f != "" && !o.dashed && o.key == "" {
		return p, fmt.Errorf("%s comes after the word %q; flags come first, as in: dibs run --key KEY -- COMMAND "+
			"(if it is the command's own, write -- before the command)", f, o.args[0])
	}
	err := p.flags() // what can be judged without a store
	if err != nil {
		return p, err
	}
	p.address, err = resolve(o.store)
	if errors.Is(err, errWithheld) && o.scope == "host" {
		p.address, err = implied() // which is meant, whatever the store is
	}
	if err != nil {
		return p, err
	}
	if err := p.scoped(); err != nil {
		return p, err
	}
	if o.key == "" {
		if !p.host {
			return p, fmt.Errorf("--key is required on a shared store (%s): command lines differ between hosts", p.address)
		}
		p.runOptions.key = strings.Join(o.args, " ")
	}
	if p.key, err = lease.ParseKey(p.runOptions.key); err != nil {
		if o.key == "" {
			err = fmt.Errorf("give a --key: without it the command line is the key, and %w", err)
		}
		return p, err
	}
	p.fire.Key, p.fire.Command, p.fire.Wait = p.key, strings.Join(o.args, " "), o.wait
	p.fire.Limits = run.Limits{Timeout: o.timeout, Attempts: 1}
	if o.now { // what the line says of ticks was checked, as it will be when it is due
		host, _ := os.Hostname()
		p.once, p.fire.Policy.OnCrash, p.fire.Cause = once{}, job.CrashSkip, &run.Cause{By: whoami(host)}
	}
	return p, nil
}

// flags checks the flags that need neither a store nor its address.
func (p *plan) flags() (err error) {
	o := p.runOptions
	if o.key != "" {
		if _, err := lease.ParseKey(o.key); err != nil {
			return fmt.Errorf("--key: %w", err)
		}
	}
	name := cmp.Or(o.key, strings.Join(o.args, " "))
	if p.once, err = parseOnce(o.oncePer, o.zone, o.dst, lease.Key(name)); err != nil {
		return err
	}
	if p.fire.Policy, err = o.parsePolicy(); err != nil {
		return err
	}
	if p.ping, err = o.parsePings(); err != nil {
		return err
	}
	if o.contendedExit < 0 || o.contendedExit > 255 {
		return fmt.Errorf("--contended-exit %d: want 0-255", o.contendedExit)
	}
	return nil
}

// scoped decides the scope, and refuses the accident of rule H2: a forgotten store must not mean
// that every server runs the job.
func (p *plan) scoped() error {
	switch p.scope {
	case "":
		p.host = !p.address.shared()
	case "host":
		p.host = true
	case "global":
		if !p.address.shared() && !p.address.OnlyHost {
			return fmt.Errorf("--scope global: %s reaches only this host; name a shared store with --store or DIBS_STORE, or declare with ?reach=only-host that there is no other host", p.address)
		}
		p.host = !p.address.shared()
	default:
		return misspelt("--scope", p.scope, fmt.Errorf("%q: want host or global", p.scope), "host", "global")
	}
	if p.address.implicit && p.scope == "" && (p.oncePer != "" && p.oncePer != "none" || p.cron) {
		return fmt.Errorf("no store is named, so every server would run this: name the fleet's store with --store or DIBS_STORE, or use --scope host for this host only (%s)", p.address)
	}
	return nil
}

func (o runOptions) parsePolicy() (pol job.Policy, err error) {
	pol = job.Policy{StopGrace: o.stopGrace, Timeout: o.timeout, CatchUpWindow: job.DefaultPolicy(true).CatchUpWindow}
	if pol.Concurrency, err = job.ParseConcurrency(o.policy); err != nil {
		return pol, misspelt("--policy", o.policy, err, "forbid", "allow", "replace", "wait")
	}
	if pol.OnCrash, err = job.ParseOnCrash(o.onCrash); err != nil {
		return pol, misspelt("--on-crash", o.onCrash, err, "skip", "rerun")
	}
	if pol.Leftovers, err = job.ParseLeftovers(o.leftovers); err != nil {
		return pol, misspelt("--leftovers", o.leftovers, err, "wait", "kill", "leave")
	}
	switch {
	case o.wait < 0 || o.timeout < 0 || o.stopGrace < 0:
		return pol, errors.New("--wait, --timeout and --stop-grace must not be negative")
	case o.wait > 0 && pol.Concurrency != job.Forbid:
		return pol, fmt.Errorf("--wait goes with --policy forbid, not with %s", o.policy)
	case pol.OnCrash == job.CrashRerun && (o.oncePer == "" || o.oncePer == "none"):
		return pol, errors.New("--on-crash rerun needs --once-per CRON: without a tick there is nothing to rerun")
	}
	return pol, nil
}

// runRun carries out `dibs run`.
func runRun(ctx context.Context, e env, o runOptions) error {
	p, err := o.check()
	if err != nil {
		return usage(err) // 125: see execute
	}
	to, err := openReport(p.json) // before anything else is opened
	if err != nil {
		return usage(fmt.Errorf("--json %s: %w", p.json, err))
	}
	defer to.Close()
	descriptors := passed()
	reap()
	signals := newRelay(ctx)
	config := p.address.Config
	if p.host {
		if config, err = p.address.host(); err != nil {
			return statusError{exitInternal, err}
		}
	}
	level := slog.LevelInfo
	if p.silent() {
		level = slog.LevelWarn
	}
	place, err := open(signals.waiting, config, output.TextLogger(e.stderr, level))
	var early signaled
	switch {
	case errors.As(context.Cause(signals.waiting), &early):
		return statusError{128 + int(early.Signal), nil}
	case err != nil:
		if p.once.schedule != nil && !p.host {
			p.address.backend().NoteUnclaimed(hostDir(), p.once.job(), string(p.key), time.Time{}, err)
		}
		return failure(err)
	}
	defer place.close()
	defer place.Book.Release(context.WithoutCancel(ctx)) //nolint:errcheck // it lapses by itself
	if e.log.tty && !p.quiet {
		place.OnHeld = func(held *lease.HeldError) {
			_, _ = fmt.Fprintf(e.stderr, "dibs: %s: waiting for %s, which has held it since %s%s\n", p.key, printable(held.Record.Holder.String()),
				stampOf(held.Record.Acquired), commandOf(held.Record.Holder))
		}
	}
	r := runner{plan: p, place: place, signals: signals, descriptors: descriptors, stderr: e.stderr, now: place.Keeper.Now,
		inner: p.address.inner(output.TextLogger(e.stderr, slog.LevelWarn))}
	defer r.inner.Close()
	if p.cron && p.oncePer == "" && !p.host {
		fmt.Fprintf(e.stderr, "dibs: %s: this is only a lock: a job that is shorter than the servers' clocks differ runs on each of them; add --once-per 'EXPR', or --once-per none to confirm\n", p.key)
	}
	if p.address.implicit && p.scope == "" && !e.log.tty {
		fmt.Fprintf(e.stderr, "dibs: %s: no store is named, so this lock works on this host only (%s); name the fleet's store with --store or DIBS_STORE, or use --scope host\n", p.key, hostDir())
	}
	pinged := p.ping.begin(place, p.key)
	rep := r.run()
	signals.over()
	pinged.end(signals.working)
	printed := r.output(signals.working)
	if err := rep.write(signals.waiting, to, p.contendedExit); err != nil {
		fmt.Fprintf(e.stderr, "dibs: --json: %v\n", err)
	}
	if len(printed) > 0 {
		if err := place.Keep(run.Record{ID: rep.RunID, Job: rep.Key}, printed); err != nil {
			place.Log.Warn("the run's output could not be kept", "run_id", rep.RunID, "error", err)
		}
	}
	if p.host && p.address.shared() && !p.address.implicit {
		p.address.mirror(place).After(ctx)
	}
	if !rep.Started.IsZero() {
		place.RetainAfter(ctx)
	}
	if rep.Outcome == run.Canceled {
		if signals.untouched() {
			interruptGroup(rep.status - 128)
		}
		if whole && rep.status == 128+int(syscall.SIGINT) {
			interrupted = true
		}
	}
	return r.status(rep)
}

// reap reaps what becomes this process's child, while it runs work (command.ReapOrphans).
func reap() {
	if whole {
		_ = hostDir() // which may ask another program
		command.ReapOrphans()
	}
}

// commandOf is what a holder runs, in words.
func commandOf(h lease.Holder) string {
	if h.Command == "" {
		return ""
	}
	return ": " + printable(h.Command)
}

// failure is the status of an error that came before anything was started.
func failure(err error) error {
	if errors.Is(err, lease.ErrUnavailable) {
		return statusError{exitUnavailable, err}
	}
	return statusError{exitInternal, err}
}

// unstartable is the status for an error that says why a command cannot be started here; 0: it says something else.
func unstartable(err error) int {
	var start *command.StartError
	if errors.As(err, &start) {
		return start.Status
	}
	return 0
}

// runner carries out one plan.
type runner struct {
	plan
	place   *opened
	signals *relay
	stderr  io.Writer
	now     func(context.Context) (time.Time, error)
	inner   *nested.Inner
	echo    *echo // nil: the output is not kept

	descriptors []int // for the command
}

// run waits for the lease, under --once-per for the tick, and runs the command.
func (r *runner) run() report {
	f := r.fire
	f.Accept = r.signals.waiting
	f.Holder = r.holder
	f.OnStart = func(run.Record) { r.signals.start() }
	target := command.Target{Args: r.args, Env: r.ping.hidden(r.inner.Environ(os.Environ())), Enter: r.inner.Enter, Stdio: true, Signals: r.signals.toCommand,
		Descriptors: r.descriptors, Foreground: whole && !piped(os.Stdout) && !piped(os.Stderr),
		Leftovers: backend.Leftovers(f.Policy.Leftovers), LeftoverGrace: r.stopGrace, OnLeftovers: r.leftoverPids, OnStuck: r.stuckPids}
	f.Target = relayed{signals: r.signals, Target: target}
	if !r.noOutput && r.place.History != nil {
		r.echo = &echo{Target: target, stderr: r.stderr}
		f.Target, f.Output = relayed{signals: r.signals, Target: r.echo}, r.echo
	}
	return r.once.fire(r.signals.waiting, r.signals.working, r, f)
}

// output is what is to be kept of what the command printed, once all of it is passed on.
func (r *runner) output(until context.Context) []byte {
	if r.echo == nil {
		return nil
	}
	return r.echo.end(until)
}

// holder adds what instant reclaim needs to know of the run (rule L6).
func (r *runner) holder(key lease.Key, runID string) lease.Holder {
	h := r.place.Self
	h.Cgroup = command.CgroupFor(key, runID)
	return h
}

func (r *runner) stuckPids(pids []int) {
	fmt.Fprintf(r.stderr, "dibs: %s: waiting for processes of an earlier run, which hang in the kernel and survive SIGKILL: %v\n", r.key, pids)
}

func (r *runner) leftoverPids(_ int, pids []int) {
	fmt.Fprintf(r.stderr, "dibs: %s: the command has ended, but processes that it started still run, so the lease is still held: %v (--leftovers kill|leave)\n", r.key, pids)
}
