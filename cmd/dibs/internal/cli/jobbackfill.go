package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
)

// backfillOptions are the flags of `dibs job backfill`.
type backfillOptions struct {
	serveOptions
	job, from, to, id, why string
	force, skipped, dry    bool
	limit, concurrency     int
	out                    format
}

const backfillHelp = `Run the old ticks of a job that have no run yet: those from --from until just before --to, the oldest first, on this
machine. They are the ticks that nobody claimed, also from before the job was registered, and those that ended missed or
unavailable. No tick runs twice, even if a server or another back-fill tries it at the same time. The run's outcome
becomes the tick's. Try --dry-run first: it lists the ticks.

dibs leaves out ticks that ran, were skipped, or fell into a pause. --skipped also runs skipped ticks, except those
outside the job's windows. --force runs all the others once more; their outcomes stay as they are.

Each run takes the job's lease, and waits while another run has it. A tick that falls due in the meantime finds the lease
held: with the policy Forbid it is skipped. While the job is paused, nothing runs. The manifest must be the one that the
servers have loaded.

If the store does not answer, the back-fill waits for four TTLs (a minute by default) before it gives up. With --force it
gives up when the lease is lost.

After SIGINT or SIGTERM the current run may end; a second signal stops it. To continue, run the same command again (with
--force, add the --id that it prints).

Exit status:
  0  all ticks that had to run succeeded, or there were none; --limit was reached
  1  some did not succeed, or a signal ended it
  2  wrong usage or manifest, or another definition is registered
  69 the store is unavailable`

func newJobBackfill(e env) *cobra.Command {
	o := backfillOptions{}
	cmd := &cobra.Command{Use: "backfill APP/JOB --from T [--to T]", Short: "Run the ticks of a range that have no run", Long: backfillHelp,
		Example: "  dibs job backfill shop/report --manifest jobs.yaml --from 2026-03-01 --to 2026-04-01 --dry-run\n" +
			"  dibs job backfill shop/report --manifest jobs.yaml --from 2026-03-01 --to 2026-04-01 --limit 5\n" +
			"  dibs job backfill shop/report --manifest jobs.yaml --from 2026-03-07 --to 2026-03-08 --force --reason 'wrong rates, T-123'",
		Args: exactly(1, "one job, as APP/JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.job = args[0]
			return runJobBackfill(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	o.sourceOptions.flags(cmd)
	manifestFlags(cmd, &o.serveOptions)
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "the first `INSTANT` of the range, or a date; required")
	f.StringVar(&o.to, "to", "", "the first `INSTANT` after it (default: now)")
	f.BoolVar(&o.skipped, "skipped", false, "also run ticks that were skipped")
	f.BoolVar(&o.force, "force", false, "run the others once more, beside their outcomes; requires --reason")
	f.StringVar(&o.id, "id", "", "with --force: the back-fill to continue")
	f.Var(positive[int](&o.limit), "limit", "run at most this many ticks (default: all)")
	f.IntVar(&o.concurrency, "concurrency", 1, "run this many at once; more than 1 helps under the policy Allow only")
	f.BoolVar(&o.dry, "dry-run", false, "only list what would run")
	f.StringVar(&o.why, "reason", "", "why; recorded with each run")
	return cmd
}

// manifestFlags are the flags by which a command that fires by itself finds a job.
func manifestFlags(cmd *cobra.Command, o *serveOptions) {
	f := cmd.Flags()
	f.StringVar(&o.source, "manifest", os.Getenv("DIBS_MANIFEST"), "the manifest that declares the job: a file, a directory, - or an address, as for\ndibs serve (default $DIBS_MANIFEST)")
	f.StringVar(&o.scope, "default-scope", "", "host or global: the scope of jobs without concurrency_scope; required for\nsuch jobs on a shared store")
	environmentFlag(cmd, &o.environment)
	f.BoolVar(&o.logJSON, "log-json", false, logJSONHelp)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "log each step")
}

// backfillRecord is what `dibs job backfill -o json` prints; its form is stable.
type backfillRecord struct {
	Job    string    `json:"job"`
	ID     string    `json:"id"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	DryRun bool      `json:"dry_run"`
	// Ticks are those looked at, Fill and Again those that were, or would be, run.
	Ticks    int            `json:"ticks"`
	Fill     int            `json:"fill"`
	Again    int            `json:"again"`
	First    time.Time      `json:"first,omitzero"`
	Last     time.Time      `json:"last,omitzero"`
	Left     map[string]int `json:"left"` // by why
	Outcomes map[string]int `json:"outcomes"`
	Runs     []filledRecord `json:"runs"`
	// WouldRun are the first of those that a dry run would have run.
	WouldRun []time.Time `json:"would_run,omitempty"`
	Ended    string      `json:"ended,omitempty"` // why it went no further
}

// mostListed is how many ticks a dry run lists in JSON, and mostShown how many for people.
const (
	mostListed = 10_000
	mostShown  = 200
)

type filledRecord struct {
	Tick    time.Time `json:"tick"`
	Again   bool      `json:"again,omitempty"`
	Outcome string    `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
	RunID   string    `json:"run_id,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
}

func runJobBackfill(ctx context.Context, e env, o backfillOptions) error {
	b, err := o.plan()
	if err != nil {
		return usage(err)
	}
	if o.dry {
		ctx = toRead(ctx)
	}
	work := e
	work.stdout = e.stderr // what the job prints; the standard output is the report's
	t := trigger{options: triggerOptions{serveOptions: o.serveOptions}, env: work}
	if err := t.prepare(ctx, work, o.job); err != nil {
		return usage(err)
	}
	accept, working, stop := stoppedTwice(ctx, t.lastGrace, endings...)
	defer stop() // last of all: until then a signal ends what waits, and not this process
	defer t.end()
	place, j, err := t.job.Open(accept)
	if err != nil {
		return refused(err)
	}
	if j.Dormant {
		return usage(fmt.Errorf("%s: its environments are %s, and this server's is %q (--environment, DIBS_ENVIRONMENT)", t.key(), strings.Join(j.Spec.Environments, ", "), o.environment))
	}
	if b.By = whoami(place.Self.Host); b.To.IsZero() {
		now, err := place.Keeper.Now(accept)
		if err != nil {
			return err
		}
		b.To = now.Truncate(time.Second)
	}
	if !b.From.Before(b.To) {
		return usage(fmt.Errorf("--from %s is not before --to %s", stampOf(b.From), stampOf(b.To)))
	}
	out := output.NewPrinter(e.stdout) // nobody waits for a reader while the back-fill holds its key
	defer out.Flush()
	rep := &backfillReport{out: o.out, to: out, backfillRecord: backfillRecord{Job: t.key(), ID: b.ID, From: b.From, To: b.To, DryRun: o.dry,
		Left: map[string]int{}, Outcomes: map[string]int{}, Runs: []filledRecord{}}}
	if o.dry {
		err = place.Backlog(accept, j, b, func(s scheduler.Step) bool { rep.foretell(s); return accept.Err() == nil })
	} else {
		err = place.Backfill(accept, working, j, b, rep.tell)
	}
	return o.conclude(e, rep, err)
}

// plan is the back-fill that the flags ask for.
func (o backfillOptions) plan() (b scheduler.Backfill, err error) {
	b = scheduler.Backfill{ID: o.id, Skipped: o.skipped, Force: o.force, Limit: o.limit, Concurrency: o.concurrency, Why: o.why}
	switch {
	case o.out.check() != nil:
		return b, o.out.check()
	case o.from == "":
		return b, errors.New("--from is required: it is the beginning of the range")
	case o.force && o.why == "" && !o.dry:
		return b, errors.New("--force runs ticks again that have run: it requires --reason")
	case o.id != "" && !o.force:
		return b, errors.New("--id needs --force: without it the ticks themselves show what is left")
	case o.concurrency < 1 || o.concurrency > 1000:
		return b, fmt.Errorf("--concurrency %d: want 1 to 1000", o.concurrency)
	}
	if b.ID == "" {
		b.ID = run.NewID()
	}
	if b.From, err = parseTime("--from", o.from); err == nil && o.to != "" {
		b.To, err = parseTime("--to", o.to)
	}
	return b, err
}

// conclude prints the rest of the report, and says how to go on.
func (o backfillOptions) conclude(e env, rep *backfillReport, err error) error {
	var sig signaled
	limited := errors.Is(err, scheduler.ErrLimit)
	switch {
	case limited:
		rep.Ended, err = fmt.Sprintf("--limit %d is reached", o.limit), nil
	case errors.As(err, &sig):
		rep.Ended, err = sig.Error(), nil
	case errors.Is(err, scheduler.ErrUnknownJob):
		return usage(fmt.Errorf("%w: its ticks begin when a server loads it (dibs serve, dibs trigger)", err))
	case errors.Is(err, scheduler.ErrOtherDefinition):
		return usage(fmt.Errorf("%w than this manifest: use the servers' manifest, or load this one on the servers first", err))
	case errors.Is(err, lease.ErrUnavailable), errors.Is(err, lease.ErrLost):
		rep.Ended = err.Error()
	case err != nil:
		return err
	}
	if werr := rep.end(); werr != nil {
		return werr
	}
	if rep.Ended != "" {
		again := "the same command continues from here"
		if o.force {
			again += ", with --id " + rep.ID
		}
		fmt.Fprintf(e.stderr, "dibs: %s; %s\n", rep.Ended, again)
	}
	switch {
	case err != nil:
		return err
	case rep.failed || rep.Ended != "" && !limited:
		return statusError{status: exitFailed}
	}
	return nil
}

// backfillReport tells what becomes of a back-fill.
type backfillReport struct {
	backfillRecord
	out    format
	to     io.Writer
	failed bool
}

// step counts a tick.
func (r *backfillReport) step(s scheduler.Step) {
	r.Ticks++
	switch s.Do {
	case scheduler.Fill:
		r.Fill++
	case scheduler.Again:
		r.Again++
	default:
		r.Left[s.Why]++
		return
	}
	if r.First.IsZero() || s.At.Before(r.First) {
		r.First = s.At
	}
	if s.At.After(r.Last) {
		r.Last = s.At
	}
}

// foretell is step in a dry run, which lists what would run.
func (r *backfillReport) foretell(s scheduler.Step) {
	r.step(s)
	if s.Do == scheduler.Leave || len(r.WouldRun) >= mostListed {
		return
	}
	r.WouldRun = append(r.WouldRun, s.At)
	switch {
	case r.out == "json" || len(r.WouldRun) > mostShown+1:
	case len(r.WouldRun) > mostShown:
		fmt.Fprintln(r.to, "…")
	case s.Do == scheduler.Again:
		fmt.Fprintf(r.to, "%s  again\n", stampOf(s.At))
	default:
		fmt.Fprintf(r.to, "%s  to run\n", stampOf(s.At))
	}
}

// tell hears of a tick that was left, or has run.
func (r *backfillReport) tell(s scheduler.Step, res scheduler.Result) {
	r.step(s)
	if s.Do == scheduler.Leave {
		return
	}
	f := filledRecord{Tick: s.At, Again: s.Do == scheduler.Again, Outcome: string(res.Outcome), Reason: res.Reason,
		RunID: res.Run.ID, Started: res.Run.Started, Ended: res.Run.Ended}
	switch {
	case res.Taken != nil:
		f.Outcome, f.Reason = string(duplicate), "another server took it over"
	case f.Outcome == "" && res.Err != nil:
		f.Outcome, f.Reason = "not_started", res.Err.Error()
	}
	r.Runs = append(r.Runs, f)
	r.Outcomes[f.Outcome]++
	r.failed = r.failed || res.Outcome != run.Succeeded && res.Taken == nil
	if r.out == "json" {
		return
	}
	line := fmt.Sprintf("%s  %s", stampOf(f.Tick), f.Outcome)
	if f.RunID != "" {
		line += "  " + took(f.Started, f.Ended)
	}
	if f.Reason != "" {
		line += "  " + printable(f.Reason)
	}
	fmt.Fprintln(r.to, line)
}

// end prints the sum.
func (r *backfillReport) end() error {
	if r.out == "json" {
		return writeJSON(r.to, r.backfillRecord)
	}
	verb := "run"
	if r.DryRun {
		verb = "to run"
	}
	fmt.Fprintf(r.to, "%s: %s in [%s, %s): %d %s", r.Job, plural(r.Ticks, "tick"), stampOf(r.From), stampOf(r.To), r.Fill+r.Again, verb)
	if r.Again > 0 {
		fmt.Fprintf(r.to, ", %d of them again", r.Again)
	}
	if r.Fill+r.Again > 0 {
		fmt.Fprintf(r.to, ", from %s to %s", stampOf(r.First), stampOf(r.Last))
	}
	fmt.Fprintln(r.to)
	for _, of := range []struct {
		what string
		n    map[string]int
	}{{"", r.Outcomes}, {"left: ", r.Left}} {
		for _, name := range keysOf(of.n) {
			fmt.Fprintf(r.to, "%6d  %s%s\n", of.n[name], of.what, printable(name))
		}
	}
	return nil
}

func keysOf(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
