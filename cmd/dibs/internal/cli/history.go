package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// historyOptions are the flags of `dibs history`.
type historyOptions struct {
	store, job, from, to string
	since                bool // the word for from is since
	limit                int
	out                  format
	events, log          bool
	failed, running      bool
	outcomes             []string
	late                 time.Duration
	run                  string
}

const historyHelp = `List what happened, the latest first: ticks with their outcomes and runs, and runs without a tick. With JOB, only those of
one job or key. With RUN, a run's id or a unique beginning of it, show that run and its attempts, as --run does; a job
of that name comes first.`

func newHistory(e env) *cobra.Command {
	o := historyOptions{}
	cmd := &cobra.Command{Use: "history [JOB|RUN]", Long: historyHelp, Short: "List runs and ticks, and how they ended",
		Example: "  dibs history\n  dibs history invoices -n 20\n  dibs history --failed --since 24h\n  dibs history --running\n  dibs history shop/cleanup --late 1m\n  dibs history shop/cleanup --outcome lost,crashed --from 2026-11-20T00:00:00Z -o json\n  dibs history --events\n  dibs history shop/cleanup --log\n  dibs history --run 01a1fc75-f7c0-79 -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.job = args[0]
			}
			o.since = cmd.Flags().Changed("since")
			return runHistory(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	f := cmd.Flags()
	f.IntVarP(&o.limit, "limit", "n", 100, "at most this many entries, 1 to 10000")
	f.StringVar(&o.from, "from", "", "from this `INSTANT` on, or from an age such as 24h")
	f.StringVar(&o.from, "since", "", "the same as --from")
	f.StringVar(&o.to, "to", "", "before this `INSTANT`, or an age")
	f.BoolVar(&o.failed, "failed", false, "only bad ends: "+strings.Join(notWell, ", "))
	f.BoolVar(&o.running, "running", false, "only what runs now")
	f.StringSliceVar(&o.outcomes, "outcome", nil, "only these outcomes, or running, or waiting; separate several with commas")
	f.Var(positive[time.Duration](&o.late), "late", "only ticks whose run began at least this long after the tick, or has not begun since")
	f.BoolVar(&o.events, "events", false, "show events instead: skips, takeovers, crashes, breaks")
	f.StringVar(&o.run, "run", "", "show the run with this `ID` (or a unique beginning of it) and its attempts")
	f.BoolVar(&o.log, "log", false, "print the output, or the answer, of that run or of JOB's latest run")
	return cmd
}

// entry is one line of history: a tick with its runs, or a run without a tick. Its form is stable.
type entry struct {
	Job string `json:"job"`
	// Host and HostID are whose own job it is, of a tick or run that a host has copied here (rule H1).
	Host     string     `json:"host,omitempty"`
	HostID   string     `json:"host_id,omitempty"`
	Tick     *time.Time `json:"tick"`
	Through  *time.Time `json:"through,omitempty"`
	Outcome  string     `json:"outcome"`
	Reason   string     `json:"reason,omitempty"`
	Count    int        `json:"count,omitempty"`
	Inferred bool       `json:"inferred,omitempty"`
	// Unsettled: it is over, and nobody has recorded so yet (rule T4).
	Unsettled bool `json:"unsettled,omitempty"`
	// Late is how long after the tick its first run began; of a tick that waits, how long it has waited.
	Late float64     `json:"late_seconds,omitempty"`
	Runs []runRecord `json:"runs"`
}

type runRecord struct {
	RunID    string        `json:"run_id"`
	Token    lease.Token   `json:"token"`
	Host     string        `json:"host"`
	Outcome  string        `json:"outcome"`
	Reason   string        `json:"reason,omitempty"`
	Inferred bool          `json:"inferred,omitempty"`
	Started  time.Time     `json:"started,omitzero"`
	Ended    time.Time     `json:"ended,omitzero"`
	Attempts []run.Attempt `json:"attempts"`
	Cause    *run.Cause    `json:"cause,omitempty"`
}

func runHistory(ctx context.Context, e env, o historyOptions) error {
	q, err := o.query()
	switch {
	case err != nil:
		return err
	case (o.run != "" || o.log) && (o.events || o.from != "" || o.to != "" || o.filters()):
		return usage(errors.New("--run and --log show one run: leave out --events and what selects entries"))
	case o.events && o.filters():
		return usage(errors.New("--failed, --running, --outcome and --late select ticks and runs: leave out --events"))
	case o.run != "" || o.log:
		return showRun(ctx, e, o)
	}
	place, err := openFor(ctx, e, o.store)
	switch {
	case err != nil && o.mayBeRun() && unusable(err):
		return showRun(ctx, e, o.asRun()) // which may be one of this host's own
	case err != nil:
		return err
	}
	defer place.close()
	if place.History == nil {
		return fmt.Errorf("store %s has no history: %w", place.config, errors.ErrUnsupported)
	}
	if err := deliverBy(ctx, place.DeliverAll); err != nil {
		fmt.Fprintf(e.stderr, "dibs: outcomes on this host could not be delivered to the store, and are not shown: %v\n", err)
	}
	if o.events {
		return showEvents(ctx, e, place, q, o.out)
	}
	entries, err := o.recall(ctx, e, place, q)
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	if len(entries) == 0 && o.job != "" {
		err := o.nothing(ctx, e, place)
		if errors.Is(err, errUnheard) && o.mayBeRun() {
			if asRun := showRun(ctx, e, o.asRun()); !errors.Is(asRun, errNoRun) {
				return asRun
			}
		}
		if err != nil {
			return err
		}
	} else if o.mayBeRun() {
		o.ambiguous(ctx, e, place)
	}
	entries = cutHistory(e, entries, o.limit, func(en entry) time.Time { return en.at() })
	if o.out == "json" {
		return writeJSON(e.stdout, entries)
	}
	return tellEntries(e, entries)
}

// mayBeRun says whether JOB may be a run's id, and nothing else that was asked for excludes that.
func (o historyOptions) mayBeRun() bool {
	return mayBeRun(o.job) && !o.events && o.from == "" && o.to == "" && !o.filters()
}

// asRun asks for the run whose id was given as JOB.
func (o historyOptions) asRun() historyOptions {
	o.run, o.job = o.job, ""
	return o
}

// ambiguous says that JOB was taken as a job's name, if it is a run's id as well.
func (o historyOptions) ambiguous(ctx context.Context, e env, p *opened) {
	if runs, err := runsNamed(ctx, p.History, history.Query{RunID: o.job, Limit: 1}); err == nil && len(runs) > 0 {
		sayAmbiguous(e, o.job)
	}
}

func sayAmbiguous(e env, name string) {
	fmt.Fprintf(e.stderr, "dibs: %[1]s is the name of a job, and also of a run; this is the job (dibs history --run %[1]s shows the run)\n", name)
}

func (o historyOptions) query() (q history.Query, err error) {
	q = history.Query{Job: o.job, Limit: o.limit}
	if err = o.out.check(); err != nil {
		return q, err
	}
	if o.limit < 1 || o.limit > 10_000 {
		return q, usage(fmt.Errorf("-n, --limit %d: want 1 to 10000", o.limit))
	}
	if err := o.checkOutcomes(); err != nil {
		return q, err
	}
	now := time.Now()
	if o.from != "" {
		flag := "--from"
		if o.since {
			flag = "--since"
		}
		if q.From, err = parseWhen(flag, o.from, now); err != nil {
			return q, err
		}
	}
	if o.to != "" {
		q.To, err = parseWhen("--to", o.to, now)
	}
	return q, err
}

// openFor opens the store for a command that only looks or sets right.
func openFor(ctx context.Context, e env, flag string) (*opened, error) {
	a, err := resolve(flag)
	if err != nil {
		return nil, usage(err)
	}
	return open(ctx, a.Config, logTo(e))
}

// logTo is the log of a command that somebody types: it says itself what it did.
func logTo(e env) *slog.Logger {
	return output.TextLogger(e.stderr, slog.LevelWarn)
}

// recall joins ticks with their runs, and puts runs without a tick between them, latest first.
func recall(ctx context.Context, p *opened, q history.Query) ([]entry, error) {
	hosts, err := mirror.Hosts(ctx, p.Backend.Backend)
	if err != nil {
		return nil, err
	}
	// The jobs come before the ticks: what is settled in between is above the mark that was read, and has its rows.
	known, err := registeredAs(ctx, p, q.Job)
	if err != nil {
		return nil, fmt.Errorf("the registered jobs: %w", err)
	}
	ticks, err := ofAll(ctx, q, hosts, p.History.Ticks)
	if err != nil {
		return nil, err
	}
	missed, err := unsettled(ctx, p, q, known)
	if err != nil {
		return nil, err
	}
	ticks = append(ticks, missed...)
	rq := q
	rq.To, rq.Limit = time.Time{}, 10_000 // a tick's runs may have started later than q.To
	runs, err := ofAll(ctx, rq, hosts, p.History.Runs)
	if err != nil {
		return nil, err
	}
	if err := inferDead(ctx, p, runs); err != nil {
		return nil, err
	}
	entries := history.Join(ticks, runs, q, newEntry, addRun)
	nameHosts(entries, hosts)
	now, err := p.Keeper.Now(ctx)
	for i := range entries {
		entries[i].Late = entries[i].lateness(now).Seconds()
	}
	return entries, err
}

// ofAll asks for a job's own rows, and for those that each host has copied of its job of that name.
// Where all jobs are asked for, these are among them.
func ofAll[T any](ctx context.Context, q history.Query, hosts []mirror.Host, ask func(context.Context, history.Query) ([]T, error)) ([]T, error) {
	all, err := ask(ctx, q)
	if err != nil || q.Job == "" {
		return all, err
	}
	name := q.Job
	for _, h := range hosts {
		q.Job = mirror.On(name, h.ID)
		rows, err := ask(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// nameHosts says of what was copied whose it is.
func nameHosts(entries []entry, hosts []mirror.Host) {
	names := map[string]string{}
	for _, h := range hosts {
		names[h.ID] = h.Name
	}
	for i := range entries {
		en := &entries[i]
		if en.Job, en.HostID = mirror.Split(en.Job); en.HostID != "" {
			en.Host = cmp.Or(names[en.HostID], en.HostID)
		}
	}
}

// inferDead shows as crashed what is recorded as running while its lease is no longer its own: the
// next run of that key records it.
func inferDead(ctx context.Context, p *opened, runs []run.Record) error {
	beside, err := p.Keeper.Unshared(ctx)
	if err != nil {
		return err
	}
	for i := range runs {
		r := &runs[i]
		key, err := lease.ParseKey(r.Job)
		if r.Outcome != "" || !r.Tick.IsZero() || err != nil {
			continue
		}
		now, rec, err := p.Keeper.Read(ctx, key)
		if err != nil {
			return err
		}
		// A run under Allow has a lease of its own, beside the key's.
		if _, alone := beside[r.Owner]; rec.Key != "" && !alone && (rec.Ref().Owner != r.Owner || !rec.Live(now)) {
			r.Outcome, r.Inferred, r.Reason = run.Crashed, true, fmt.Sprintf("%s pid %d lost its lease and did not report", r.Host, r.PID)
		}
	}
	return nil
}

func newEntry(t tick.Tick) entry {
	out := entry{Job: t.Job, Outcome: string(t.Outcome), Reason: t.Reason, Inferred: t.Inferred, Runs: []runRecord{}}
	out.Unsettled = t.State == "" && !t.At.IsZero() // it is in no store
	if out.Outcome == "" {
		out.Outcome = string(t.State)
	}
	if !t.At.IsZero() {
		out.Tick = &t.At
	}
	if t.Count > 1 {
		out.Count, out.Through = t.Count, &t.Through
	}
	return out
}

func recordOf(r run.Record) runRecord {
	rr := runRecord{r.ID, r.Token, r.Host, string(r.Outcome), r.Reason, r.Inferred, r.Started, r.Ended, r.Attempts, r.Cause}
	if rr.Outcome == "" {
		rr.Outcome = running
	}
	if rr.Attempts == nil {
		rr.Attempts = []run.Attempt{}
	}
	return rr
}

func recordsOf(runs []run.Record) []runRecord {
	all := []runRecord{}
	for _, r := range runs {
		all = append(all, recordOf(r))
	}
	return all
}

func addRun(e *entry, r run.Record) {
	rr := recordOf(r)
	e.Runs = append(e.Runs, rr)
	if e.Tick == nil {
		e.Job, e.Outcome, e.Reason, e.Inferred = r.Job, rr.Outcome, r.Reason, r.Inferred
	}
}

func tellEntries(e env, entries []entry) error {
	var rows [][]string
	last := make([]string, len(entries))
	for i, en := range entries {
		if n := len(en.Runs); n > 0 {
			last[i] = en.Runs[n-1].RunID
		}
	}
	last = shortIDs(last)
	for i, en := range entries {
		due := "-"
		cause := causeOf(en.Runs)
		switch {
		case en.Tick != nil:
			due = stampOf(*en.Tick)
		case cause != nil && !cause.Again.IsZero():
			due = "again " + stampOf(cause.Again)
		case cause != nil:
			due = "manual"
		}
		outcome := stateWord(en.Outcome)
		if en.Inferred {
			outcome += " (inferred)"
		}
		if en.Unsettled {
			outcome += " (unsettled)"
		}
		if en.Count > 1 {
			due += " … " + stampOf(*en.Through)
			outcome += " ×" + strconv.Itoa(en.Count)
		}
		reason := en.Reason
		if cause != nil {
			reason = strings.TrimPrefix(reason+"; "+cause.String(), "; ")
		}
		row := []string{en.Job, due, outcome, orDash(en.Host), "-", orDash(en.lateText()), "-", orDash(last[i]), orDash(reason)}
		if n := len(en.Runs); n > 0 {
			r := en.Runs[n-1]
			row[3], row[4], row[6] = r.Host, stampOf(r.Started), took(r.Started, r.Ended)
			if n > 1 {
				row[2] += fmt.Sprintf(" (run %d times)", n)
			}
		}
		rows = append(rows, row)
	}
	return e.table("JOB TICK OUTCOME HOST STARTED LATE TOOK RUN REASON", rows, "STARTED", "RUN", "LATE", "HOST")
}

// causeOf is why the last of some runs was made, if no schedule made it.
func causeOf(runs []runRecord) *run.Cause {
	if len(runs) == 0 {
		return nil
	}
	return runs[len(runs)-1].Cause
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func showEvents(ctx context.Context, e env, p *opened, q history.Query, out format) error {
	hosts, err := mirror.Hosts(ctx, p.Backend.Backend)
	if err != nil {
		return err
	}
	q.Limit++
	events, err := ofAll(ctx, q, hosts, p.History.Events)
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	slices.SortStableFunc(events, func(x, y history.Event) int { return y.At.Compare(x.At) })
	events = cutHistory(e, events, q.Limit-1, func(ev history.Event) time.Time { return ev.At })
	for i := range events {
		events[i].Job, _ = mirror.Split(events[i].Job) // its Host says where it was seen
	}
	if out == "json" {
		return writeJSON(e.stdout, told(events))
	}
	var rows [][]string
	for _, ev := range events {
		rows = append(rows, []string{stampOf(ev.At), ev.Kind, orDash(ev.Job + keyOnly(ev)), orDash(ev.Host), ev.Reason})
	}
	return e.table("AT EVENT JOB HOST REASON", rows)
}

// toldEvent is an event as it is shown; its form is stable.
type toldEvent struct {
	history.Event
	// Count is how many it stands for, and First and Last when these were, where they are several.
	Count int       `json:"count,omitempty"`
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
}

func told(events []history.Event) []toldEvent {
	all := []toldEvent{}
	for _, e := range events {
		t := toldEvent{Event: e}
		if n, first, last := e.Times(); n > 1 {
			t.Reason, t.Count, t.First, t.Last = e.Why(), n, first, last
		}
		all = append(all, t)
	}
	return all
}

func keyOnly(ev history.Event) string {
	if ev.Job != "" {
		return ""
	}
	return ev.Key
}
