package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// historyOptions are the flags of `dibs history`.
type historyOptions struct {
	store, job, from, to string
	limit                int
	out                  format
	events               bool
}

func newHistory(e env) *cobra.Command {
	o := historyOptions{}
	cmd := &cobra.Command{Use: "history [JOB]", Short: "Tell what happened: ticks, their outcomes and their runs",
		Example: "  dibs history\n  dibs history invoices -n 20\n  dibs history shop/cleanup --from 2026-11-20T00:00:00Z -o json\n  dibs history --events",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.job = args[0]
			}
			return runHistory(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	f := cmd.Flags()
	f.IntVarP(&o.limit, "limit", "n", 100, "the most entries, 1 to 10000")
	f.StringVar(&o.from, "from", "", "from this instant on")
	f.StringVar(&o.to, "to", "", "before this instant")
	f.BoolVar(&o.events, "events", false, "show events instead: skips, takeovers, crashes, breaks")
	return cmd
}

// entry is one line of history: a tick with its runs, or a run without a tick. Its form is stable.
type entry struct {
	Job      string     `json:"job"`
	Tick     *time.Time `json:"tick"`
	Through  *time.Time `json:"through,omitempty"`
	Outcome  string     `json:"outcome"`
	Reason   string     `json:"reason,omitempty"`
	Count    int        `json:"count,omitempty"`
	Inferred bool       `json:"inferred,omitempty"`
	// Unsettled: it is over, and nobody has recorded so yet (rule T4).
	Unsettled bool        `json:"unsettled,omitempty"`
	Runs      []runRecord `json:"runs"`
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
}

func runHistory(ctx context.Context, e env, o historyOptions) error {
	q, err := o.query()
	if err != nil {
		return err
	}
	place, err := openFor(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer place.close()
	if place.History == nil {
		return fmt.Errorf("store %s keeps no history: %w", place.config, errors.ErrUnsupported)
	}
	if err := place.Deliver(ctx); err != nil {
		fmt.Fprintf(e.stderr, "dibs: outcomes that are kept on this host could not be delivered, and are not shown: %v\n", err)
	}
	if o.events {
		return showEvents(ctx, e, place, q, o.out)
	}
	entries, err := recall(ctx, place, q)
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	if o.out == "json" {
		return writeJSON(e.stdout, entries)
	}
	return tellEntries(e, entries)
}

func (o historyOptions) query() (q history.Query, err error) {
	q = history.Query{Job: o.job, Limit: o.limit}
	if err = o.out.check(); err != nil {
		return q, err
	}
	if o.limit < 1 || o.limit > 10_000 {
		return q, usage(fmt.Errorf("-n %d: want 1 to 10000", o.limit))
	}
	if o.from != "" {
		if q.From, err = parseTime("--from", o.from); err != nil {
			return q, err
		}
	}
	if o.to != "" {
		q.To, err = parseTime("--to", o.to)
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

// logTo is the log of a command that only looks.
func logTo(e env) *slog.Logger { return slog.New(slog.NewTextHandler(e.stderr, nil)) }

// recall joins ticks with their runs, and puts runs without a tick between them, latest first.
func recall(ctx context.Context, p *opened, q history.Query) ([]entry, error) {
	ticks, err := p.History.Ticks(ctx, q)
	if err != nil {
		return nil, err
	}
	missed, err := unsettled(ctx, p, q)
	if err != nil {
		return nil, err
	}
	ticks = append(ticks, missed...)
	rq := q
	rq.To, rq.Limit = time.Time{}, 10_000 // a tick's runs may have started later than q.To
	runs, err := p.History.Runs(ctx, rq)
	if err != nil {
		return nil, err
	}
	if err := inferDead(ctx, p, runs); err != nil {
		return nil, err
	}
	return history.Join(ticks, runs, q, newEntry, addRun), nil
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
			r.Outcome, r.Inferred, r.Reason = run.Crashed, true, fmt.Sprintf("%s pid %d is gone without a report", r.Host, r.PID)
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
	rr := runRecord{r.ID, r.Token, r.Host, string(r.Outcome), r.Reason, r.Inferred, r.Started, r.Ended, r.Attempts}
	if rr.Outcome == "" {
		rr.Outcome = "running"
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
	for _, en := range entries {
		due := "-"
		if en.Tick != nil {
			due = stampOf(*en.Tick)
		}
		outcome := en.Outcome
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
		row := []string{en.Job, due, outcome, "-", "-", "-", orDash(en.Reason)}
		if n := len(en.Runs); n > 0 {
			r := en.Runs[n-1]
			row[3], row[4], row[5] = r.Host, stampOf(r.Started), took(r.Started, r.Ended)
			if n > 1 {
				row[2] += fmt.Sprintf(" (run %d times)", n)
			}
		}
		rows = append(rows, row)
	}
	return table(e.stdout, "JOB TICK OUTCOME HOST STARTED TOOK REASON", rows)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func showEvents(ctx context.Context, e env, p *opened, q history.Query, out format) error {
	events, err := p.History.Events(ctx, q)
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	if out == "json" {
		return writeJSON(e.stdout, append([]history.Event{}, events...))
	}
	var rows [][]string
	for _, ev := range events {
		rows = append(rows, []string{stampOf(ev.At), ev.Kind, orDash(ev.Job + keyOnly(ev)), orDash(ev.Host), ev.Reason})
	}
	return table(e.stdout, "AT EVENT JOB HOST REASON", rows)
}

func keyOnly(ev history.Event) string {
	if ev.Job != "" {
		return ""
	}
	return ev.Key
}
