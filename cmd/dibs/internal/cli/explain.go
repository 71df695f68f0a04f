package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// explainOptions are the flags of `dibs explain`.
type explainOptions struct {
	store, job, at, host string
	out                  format
}

const explainHelp = `Explain what happened to one tick of a job, and why: who claimed and ran it, who had the key instead, or that no server
was up. JOB is a name as dibs history shows it: APP/JOB (or APP.JOB), or a key of dibs run. With RUN, a run's id or a
unique beginning of it, explain the tick of that run; a job of that name comes first.

--at names the tick: an instant (2026-11-21T04:15:00Z), a prefix of one in UTC (2026-11-21T04:15,
2026-11-21), or a time of day in the job's own zone (04:15; the latest such time). The default is the latest tick. If the
store does not know the job, dibs looks in this host's own directory, where jobs of scope host are, and then in the copies
that other hosts made in the store; choose one with --host.

Exit status: 0 explained, also if there is no such tick; 1 if there is no such job or run.`

func newExplain(e env) *cobra.Command {
	o := explainOptions{}
	cmd := &cobra.Command{Use: "explain JOB|RUN", Short: "Explain what happened to a tick, and why", Long: explainHelp,
		Example: "  dibs explain shop/cleanup\n  dibs explain shop.cleanup --at 04:15\n  dibs explain invoices --at 2026-11-01 -o json\n  dibs explain 01a1fc75-f7c0-79",
		Args:    exactly(1, "the name of one job or key, or a run's id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.job = args[0]
			return runExplain(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	cmd.Flags().StringVar(&o.host, "host", "", "for a job of scope host: the `HOST` of the tick, by its name or id")
	cmd.Flags().StringVar(&o.at, "at", "", "the tick: an `INSTANT`, a prefix of one, or HH:MM in the job's zone (default the latest)")
	return cmd
}

// explained is what `dibs explain -o json` prints; its form is stable.
type explained struct {
	explain.Account
	Store string      `json:"store"`
	Runs  []runRecord `json:"runs"`
	Again []runRecord `json:"again,omitempty"`
	// Servers serve the job's app, and LastServer did last if none does; neither, unless the tick is due and
	// unclaimed.
	Servers     []memberView `json:"servers,omitempty"`
	LastServer  *memberView  `json:"last_server,omitempty"`
	Explanation []string     `json:"explanation"`
}

func runExplain(ctx context.Context, e env, o explainOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	a, err := resolve(o.store)
	if err != nil {
		return usage(err)
	}
	x, err := o.find(ctx, e, a)
	if mayBeRun(o.job) && o.host == "" {
		switch y, asRun := o.lookForRun(ctx, e, a); {
		case errors.Is(asRun, errNoRun):
		case err == nil && asRun == nil:
			sayAmbiguous(e, o.job)
		case errors.Is(err, explain.ErrUnknown), unusable(err):
			x, err = y, asRun
		}
	}
	switch {
	case errors.Is(err, explain.ErrUnknown):
		return fmt.Errorf("%s: no job, no key of --once-per and no run has that name in %s; `dibs history` lists them%s", o.job, x.Store, meantAt(ctx, e, a, o.job))
	case err != nil:
		return err
	}
	x.Explanation = words(x.Account)
	if o.out == "json" {
		return writeJSON(e.stdout, x)
	}
	fmt.Fprintln(e.stdout, printable(headline(x.Account)))
	for _, line := range x.Explanation {
		fmt.Fprintln(e.stdout, "  "+printable(line))
	}
	return nil
}

// find explains from wherever the job is known.
func (o explainOptions) find(ctx context.Context, e env, a address) (x explained, err error) {
	if o.host == "" {
		x, err = o.look(ctx, e, a)
	}
	if a.shared() && (o.host != "" || errors.Is(err, explain.ErrUnknown)) {
		x, err = o.lookOnHosts(ctx, e, a, x, err)
	}
	return x, err
}

// lookForRun explains the tick of the run whose id was given as JOB. A run without a tick is explained by itself.
func (o explainOptions) lookForRun(ctx context.Context, e env, a address) (explained, error) {
	by := historyOptions{run: o.job}
	r, err := by.findRunIn(ctx, e, a)
	if host, ok := a.besides(); ok && err != nil && (errors.Is(err, errNoRun) || unusable(err)) {
		if there, hostErr := by.findRunIn(ctx, e, host); hostErr == nil {
			r, err, a = there, nil, host
		}
	}
	if err != nil {
		return explained{Store: a.String()}, err
	}
	if o.at != "" {
		return explained{}, usage(fmt.Errorf("%s is a run, of one tick: leave out --at", r.RunID))
	}
	name, host := mirror.Split(r.record.Job)
	if r.Tick == nil {
		x := explained{Store: a.String(), Runs: []runRecord{r.runRecord}}
		x.Account = explain.Account{Job: name, Outcome: r.Outcome, Reason: r.Reason, Inferred: r.Inferred, Zone: time.UTC,
			Started: r.Started, Ended: r.Ended, Runs: []run.Record{r.record}}
		if host != "" {
			x.Host = r.Host
		}
		return x, nil
	}
	o.job, o.at, o.host = name, r.Tick.UTC().Format(time.RFC3339Nano), host
	if host != "" {
		return o.find(ctx, e, a)
	}
	return o.lookIn(ctx, e, a)
}

// look explains from the store, or, where that knows no such job or no longer, or does not answer,
// from this host's own directory: jobs of scope host are there.
func (o explainOptions) look(ctx context.Context, e env, a address) (explained, error) {
	x, err := o.lookIn(ctx, e, a)
	unknown := errors.Is(err, explain.ErrUnknown)
	host, ok := a.besides()
	if !ok || err == nil && x.current() || err != nil && !unknown && !unusable(err) {
		return x, err
	}
	y, hostErr := o.lookIn(ctx, e, host)
	switch {
	case hostErr == nil && (err != nil || y.current()):
		if err != nil && !unknown {
			fmt.Fprintf(e.stderr, "dibs: this explanation uses this host's own directory only: %v\n", err)
		}
		return y, nil
	case unknown && (errors.Is(hostErr, explain.ErrUnknown) || errors.Is(hostErr, store.ErrNotPrepared)):
		x.Store += " nor in " + y.Store
	case unknown:
		return x, errors.Join(err, hostErr)
	}
	return x, err
}

// current says that the store it comes from accounts for the job today.
func (x explained) current() bool { return x.Outcome != explain.NoSchedule && x.Removed.IsZero() }

// besides is this host's own directory, where it is another store and there is one: looking makes
// none.
func (a address) besides() (address, bool) {
	c, err := a.host()
	if err != nil || !a.shared() {
		return address{}, false
	}
	_, err = os.Stat(filepath.Join(c.URL.Path, "host.json"))
	return address{Config: c}, err == nil
}

// lookIn explains from one store.
func (o explainOptions) lookIn(ctx context.Context, e env, a address) (explained, error) {
	x := explained{Store: a.String()}
	p, err := open(ctx, a.Config, logTo(e))
	if err != nil {
		return x, err
	}
	defer p.close()
	if p.History == nil || p.Ticks == nil {
		return x, fmt.Errorf("store %s has no ticks and no history: %w", a, errors.ErrUnsupported)
	}
	if err := deliverBy(ctx, p.DeliverAll); err != nil {
		fmt.Fprintf(e.stderr, "dibs: outcomes on this host could not be delivered to the store, and are not considered: %v\n", err)
	}
	f, err := o.gather(ctx, p.Backend.Backend)
	if err == nil {
		if f.Unscheduled() {
			if err := inferDead(ctx, p, f.Around); err != nil { // a run may have died, and no server looks after it
				return x, err
			}
			if err := explain.GatherLease(ctx, p.Backend.Backend, &f); err != nil {
				return x, err
			}
		}
		x.Account = explain.Decide(f)
		x.Runs, x.Again = recordsOf(x.Account.Runs), recordsOf(x.Account.Again)
		if x.Outcome == explain.Due {
			x.withServers(p.censusOrSay(ctx, e))
		}
		return x, nil
	}
	return x, err
}

// withServers adds who serves the app of a tick that nobody has claimed yet.
func (x *explained) withServers(c fleet.Census) {
	x.Serving = c.Serving(tick.AppOf(x.Job))
	for _, m := range x.Serving.Up {
		x.Servers = append(x.Servers, viewMember(m))
	}
	if m := x.Serving.Last; m != nil && len(x.Serving.Up) == 0 {
		last := viewMember(*m)
		x.LastServer = &last
	}
}

// gather reads what a place knows of the job, whatever way it is written.
func (o explainOptions) gather(ctx context.Context, p *scheduler.Backend) (f explain.Facts, err error) {
	for _, name := range names(o.job) {
		f, err = explain.Gather(ctx, p, name, o.at)
		if !errors.Is(err, explain.ErrUnknown) {
			break
		}
	}
	if errors.Is(err, explain.ErrWhen) || errors.Is(err, explain.ErrAmbiguous) {
		err = usage(fmt.Errorf("--at %w", err))
	}
	return f, err
}

// lookOnHosts explains from what hosts have copied to the shared store of their own jobs: from the
// one that is meant, or the only one that has such a job. x and unknown are what was found otherwise.
func (o explainOptions) lookOnHosts(ctx context.Context, e env, a address, x explained, unknown error) (explained, error) {
	p, err := open(ctx, a.Config, logTo(e))
	if err != nil {
		return x, err
	}
	defer p.close()
	hosts, err := mirror.Hosts(ctx, p.Backend.Backend)
	if err != nil {
		return x, err
	}
	var found []explain.Facts
	var known []string
	for _, h := range hosts {
		known = append(known, fmt.Sprintf("%s (%s)", h.Name, h.ID))
		if o.host != "" && o.host != h.Name && o.host != h.ID {
			continue
		}
		f, err := o.gather(ctx, h.View(p.Backend.Backend))
		if errors.Is(err, explain.ErrUnknown) {
			continue
		}
		if err != nil {
			return x, err
		}
		f.Host, f.Heard = h.Name, h.Seen
		found = append(found, f)
	}
	switch {
	case len(found) > 1:
		var on []string
		for _, f := range found {
			on = append(on, f.Host)
		}
		return x, usage(fmt.Errorf("%s is a job of scope host, and has a tick on each of %s: name one with --host, by its id if two have the same name (%s)", o.job, strings.Join(on, ", "), strings.Join(known, ", ")))
	case len(found) == 0 && o.host != "":
		return x, fmt.Errorf("%s: %s has copied no such job to %s; the hosts that copy there: %s", o.job, o.host, a, orDash(strings.Join(known, ", ")))
	case len(found) == 0:
		return x, unknown
	}
	x.Store, x.Account = a.String(), explain.Decide(found[0])
	x.Runs, x.Again = recordsOf(x.Account.Runs), recordsOf(x.Account.Again)
	return x, nil
}

// names are what JOB may mean: itself, or APP.JOB as `dibs trigger` takes it.
func names(job string) []string {
	all := []string{job}
	if app, name, ok := strings.Cut(job, "."); ok && !strings.ContainsAny(name, "./") && !strings.Contains(app, "/") {
		all = append(all, app+"/"+name)
	}
	return all
}
