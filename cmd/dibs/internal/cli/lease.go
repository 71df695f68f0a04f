package cli

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

func newLease(e env) *cobra.Command {
	return group(&cobra.Command{Use: "lease", Short: "Locks: list, show, break"},
		newLeaseList(e), newLeaseShow(e), newLeaseBreak(e))
}

// leaseView is what is shown of a lease; its form is stable.
type leaseView struct {
	Key     string        `json:"key"`
	State   string        `json:"state"` // held or free
	Token   lease.Token   `json:"token"`
	TTL     float64       `json:"ttl_seconds"`
	Expires float64       `json:"expires_in_seconds"`
	Acq     time.Time     `json:"acquired,omitzero"`
	Renewed time.Time     `json:"renewed,omitzero"`
	Holder  *holderView   `json:"holder,omitempty"`
	Broken  *lease.Broken `json:"broken,omitempty"`
	Waiters int           `json:"waiters,omitempty"`
}

type holderView struct {
	ID      string `json:"id"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	RunID   string `json:"run_id"`
	Command string `json:"command"`
}

func view(r lease.Record, now time.Time) leaseView {
	v := leaseView{Key: r.Key.String(), State: "free", Token: r.Token, TTL: r.TTL.Seconds(), Acq: r.Acquired, Renewed: r.Renewed, Broken: r.Broken}
	if r.Live(now) {
		v.State, v.Expires = "held", r.Expires.Sub(now).Seconds()
		v.Holder = &holderView{r.Owner.String(), r.Holder.Host, r.Holder.PID, r.Holder.RunID, r.Holder.Command}
	}
	return v
}

// leaseListOptions are the flags of `dibs lease list`.
type leaseListOptions struct {
	store, prefix string
	all, internal bool
	out           format
}

func newLeaseList(e env) *cobra.Command {
	o := leaseListOptions{}
	cmd := &cobra.Command{Use: "list [PREFIX]", Short: "List the held leases", Args: cobra.MaximumNArgs(1),
		Example: "  dibs lease list\n  dibs lease list shop/ --all -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.prefix = strings.Join(args, "")
			return runLeaseList(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	cmd.Flags().BoolVar(&o.all, "all", false, "also free leases")
	cmd.Flags().BoolVar(&o.internal, "internal", false, "also dibs's own leases: servers, waiting places")
	return cmd
}

func runLeaseList(ctx context.Context, e env, o leaseListOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	p, err := openFor(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	prefix := o.prefix
	if o.internal { // the name of a key of our own has a slash that the key has not
		prefix, _, _ = strings.Cut(prefix, "/")
	}
	reply, err := p.store.Leases.List(ctx, prefix, o.all)
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	views := []leaseView{}
	waits := map[lease.Key]int{}
	for _, a := range reply.Answers {
		if base, ok := a.Record.Key.Waits(); ok && a.Record.Live(reply.Now) {
			waits[base]++
		}
	}
	for _, a := range reply.Answers {
		if a.Record.Key.Internal() && !o.internal || !strings.HasPrefix(a.Record.Key.String(), o.prefix) {
			continue
		}
		v := view(a.Record, reply.Now)
		v.Waiters = waits[a.Record.Key]
		views = append(views, v)
	}
	if len(reply.Answers) >= mostRead {
		fmt.Fprintf(e.stderr, "dibs: only the first %d leases are listed; a PREFIX shows others\n", mostRead)
	}
	if o.out == "json" {
		return writeJSON(e.stdout, views)
	}
	return tellLeases(e, views)
}

func tellLeases(e env, views []leaseView) error {
	var rows [][]string
	runs := make([]string, len(views))
	for i, v := range views {
		if v.Holder != nil {
			runs[i] = v.Holder.RunID
		}
	}
	runs = shortIDs(runs)
	for i, v := range views {
		row := []string{v.Key, v.State, fmt.Sprint(v.Token), "-", "-", "-", "-", "-"}
		if h := v.Holder; h != nil {
			row[3], row[4] = fmt.Sprintf("%s:%d", h.Host, h.PID), stampOf(v.Acq)
			row[5] = time.Duration(v.Expires * float64(time.Second)).Round(100 * time.Millisecond).String()
			row[6], row[7] = orDash(runs[i]), orDash(h.Command)
		}
		if v.Broken != nil {
			row[1] += " (broken)"
		}
		rows = append(rows, row)
	}
	return e.table("KEY STATE TOKEN HOLDER SINCE EXPIRES_IN RUN COMMAND", rows, "SINCE", "RUN", "TOKEN")
}

// leaseShowOptions are the flags of `dibs lease show`.
type leaseShowOptions struct {
	store, key string
	internal   bool
	out        format
}

func newLeaseShow(e env) *cobra.Command {
	o := leaseShowOptions{}
	cmd := &cobra.Command{Use: "show KEY", Short: "Show one lease", Args: exactly(1, "one key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.key = args[0]
			return runLeaseShow(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	internalFlag(cmd, &o.internal)
	return cmd
}

// internalFlag is the flag of what looks at one lease or breaks it.
func internalFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "internal", false, "KEY is one of dibs's own leases, as dibs lease list --internal names it")
}

// named is the key that a command was given.
func named(text string, internal bool) (lease.Key, error) {
	parse := lease.ParseKey
	if internal {
		parse = lease.ParseInternal
	}
	key, err := parse(text)
	if err != nil {
		err = usage(err)
	}
	return key, err
}

// none says that there is no lease of that name, and, where dibs itself uses one that is called so, how to name it.
func (p *opened) none(ctx context.Context, key lease.Key, what string) error {
	if ours, err := lease.ParseInternal(string(key)); err == nil {
		if _, r, err := p.Keeper.Read(ctx, ours); err == nil && r.Key != "" {
			return fmt.Errorf("lease %q: %s; one of dibs's own leases has that name: add --internal for that one", key, what)
		}
	}
	return fmt.Errorf("lease %q: %s%s", key, what, p.meant(ctx, key.String()))
}

func runLeaseShow(ctx context.Context, e env, o leaseShowOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	key, err := named(o.key, o.internal)
	if err != nil {
		return err
	}
	p, err := openFor(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	now, r, err := p.Keeper.Read(ctx, key)
	if err != nil {
		return err
	}
	if r.Key == "" {
		what := "there is no lease of that name in %s"
		if key.Once() {
			what = "it does not exist in %s: it was used once, and its record is deleted"
		}
		return p.none(ctx, key, fmt.Sprintf(what, p.config))
	}
	if o.out == "json" {
		return writeJSON(e.stdout, view(r, now))
	}
	return tellLeases(e, []leaseView{view(r, now)})
}

// leaseBreakOptions are the flags of `dibs lease break`.
type leaseBreakOptions struct {
	store, key, why string
	now, internal   bool
	dry             bool
	out             format
}

func newLeaseBreak(e env) *cobra.Command {
	o := leaseBreakOptions{}
	cmd := &cobra.Command{Use: "break KEY", Short: "Make the holder stop, and then free the key",
		Long: `Stop the run that holds a key, and free the key. The holder learns of it at its next heartbeat (within 2 s), stops its
work and releases the key. If it does not answer, the key is free when its lease expires (15 s after its last renewal,
by default). No other process gets the key before that, so nothing overlaps. The stopped run ends as lost. dibs records
who broke the lease, and why.

--now frees the key at once. This is UNSAFE: the next holder may start while the work of this one still runs. Use it
only if you know that the work has ended. It requires --reason.

--dry-run changes nothing. It says who would be stopped, when the key would be free at the latest, and whether the tick
would run again.`,
		Example: "  dibs lease break invoices --dry-run\n  dibs lease break invoices --reason 'hangs since 04:15'",
		Args:    exactly(1, "one key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.key = args[0]
			return runLeaseBreak(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	cmd.Flags().StringVar(&o.why, "reason", "", "why, for the record; required with --now")
	internalFlag(cmd, &o.internal)
	cmd.Flags().BoolVar(&o.dry, "dry-run", false, "say what would happen, and change nothing")
	cmd.Flags().BoolVar(&o.now, "now", false, "UNSAFE: free the key at once, without waiting for the holder")
	return cmd
}

func runLeaseBreak(ctx context.Context, e env, o leaseBreakOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	key, err := named(o.key, o.internal)
	if err != nil {
		return err
	}
	if o.now && o.why == "" && !o.dry {
		return usage(fmt.Errorf("--now is unsafe and requires --reason"))
	}
	p, err := openFor(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	if o.dry {
		return o.foretell(ctx, e, p, key)
	}
	by := whoami(p.Self.Host)
	now, r, ok, err := p.Keeper.Break(ctx, lease.Ref{Key: key}, lease.Broken{By: by, Why: o.why, Now: o.now})
	if err != nil {
		return err
	}
	if !ok {
		return p.none(ctx, key, "it is not held; nothing to break")
	}
	kind, how := "lease-broken", "waiting for the holder to stop"
	if o.now {
		kind, how = "lease-broken-unsafe", "freed at once, without waiting for the holder"
	}
	ev := history.Event{Kind: kind, Key: key.String(), Job: key.String(), RunID: r.Holder.RunID,
		Reason: fmt.Sprintf("broken by %s (%s), held by %s; %s", by, orDash(o.why), r.Holder, how)}
	if err := p.Tell(ctx, ev); err != nil {
		fmt.Fprintf(e.stderr, "dibs: the lease is broken, but the event could not be recorded: %v\n", err)
	}
	if o.out == "json" {
		return writeJSON(e.stdout, view(r, now))
	}
	if o.now {
		fmt.Fprintf(e.stdout, "%s is free now. It was held by %s, whose work may still be running.\n", key, r.Holder)
		return nil
	}
	fmt.Fprintf(e.stdout, "%s: the lease is broken. %s stops its work, and then the key is free: in %s at the latest.\n",
		key, r.Holder, freeIn(r, now))
	return nil
}

// freeIn is how long it takes at the latest until a held key can be granted, if its holder renews it no more: until it
// expires, and no request of its work may be under way elsewhere (rule L8).
func freeIn(r lease.Record, now time.Time) time.Duration {
	return max(r.Expires.Sub(now), r.BusyUntil.Sub(now)).Round(100 * time.Millisecond)
}

// breakView is what a break would do; its form is stable.
type breakView struct {
	leaseView
	// FreeIn is how many seconds later the key is free at the latest.
	FreeIn float64 `json:"free_in_seconds"`
	// Job and Tick are of the run that would be stopped, where it has a tick. OnCrash is what the job says of that
	// tick then, rerun or skip; empty for a key of dibs run, which each server's crontab says it of.
	Job     string    `json:"job,omitempty"`
	Tick    time.Time `json:"tick,omitzero"`
	OnCrash string    `json:"on_crash,omitempty"`
}

// foretell says what a break would do.
func (o leaseBreakOptions) foretell(ctx context.Context, e env, p *opened, key lease.Key) error {
	now, r, err := p.Keeper.Read(ctx, key)
	if err != nil {
		return err
	}
	if !r.Live(now) {
		return p.none(ctx, key, "it is not held; nothing to break")
	}
	v := breakView{leaseView: view(r, now)}
	if !o.now {
		v.FreeIn = freeIn(r, now).Seconds()
	}
	if err := v.ofTick(ctx, p, r.Holder.RunID); err != nil {
		return err
	}
	if o.out == "json" {
		return writeJSON(e.stdout, v)
	}
	tell := func(format string, args ...any) { fmt.Fprintln(e.stdout, printable(fmt.Sprintf(format, args...))) }
	if o.now {
		tell("%s would be free at once, while the work of %s may still run%s", key, r.Holder, commandOf(r.Holder))
	} else {
		tell("Within 2 s, if it is alive, %s would stop its work%s", r.Holder, commandOf(r.Holder))
		tell("%s would be free then: in %s at the latest.", key, freeIn(r, now))
	}
	switch {
	case v.Tick.IsZero():
		tell("The run has no tick: nothing runs again by itself.")
	case v.OnCrash == "":
		tell("Its tick %s would end as lost, and run once more if a crontab has --on-crash rerun.", stampOf(v.Tick))
	case v.OnCrash == string(job.CrashRerun):
		tell("Its tick %s would end as lost, and run once more (on_crash: rerun), but not while %s is paused.", stampOf(v.Tick), v.Job)
	default:
		tell("Its tick %s would end as lost, and not run again (on_crash: %s).", stampOf(v.Tick), v.OnCrash)
	}
	return nil
}

// ofTick fills in the tick of a run, and whether its job's ticks run again after a loss.
func (v *breakView) ofTick(ctx context.Context, p *opened, runID string) error {
	if runID == "" || p.History == nil || p.Ticks == nil {
		return nil
	}
	runs, err := p.History.Runs(ctx, history.Query{RunID: runID, Limit: 1})
	if err != nil || len(runs) == 0 || runs[0].Tick.IsZero() {
		return err
	}
	v.Job, v.Tick = runs[0].Job, runs[0].Tick
	jobs, err := p.Ticks.Jobs(ctx, tick.JobQuery{Names: []string{v.Job}})
	if err != nil || len(jobs) == 0 || tick.AppOf(v.Job) == "" {
		return err
	}
	if spec, err := job.ParseDefinition(jobs[0].Definition); err == nil {
		v.OnCrash = string(spec.Policy.OnCrash)
	}
	return nil
}

// whoami names the person for the record.
func whoami(host string) string {
	name := os.Getenv("SUDO_USER")
	if u, err := user.Current(); err == nil && name == "" {
		name = u.Username
	}
	return name + "@" + host
}
