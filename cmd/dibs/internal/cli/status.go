package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/internal/output"
)

// statusOptions are the flags of `dibs status`.
type statusOptions struct {
	store          string
	watch, timeout time.Duration
	out            format
}

const statusHelp = `Show on one screen how the fleet is. The first line says the worst: OK, WARNING or CRITICAL, and what. Then come all
problems, each with its cure: who serves nothing any more, what is late, what failed within 24 h, what waits and nobody
works. Then what runs now, what is due within the hour, the servers and workers, and the queues.

Exit status: 0 if the store answered, whatever it said (dibs check has a status for monitors); 69 if it did not, or not
to all that was asked within --timeout.`

func newStatus(e env) *cobra.Command {
	o := statusOptions{}
	cmd := &cobra.Command{Use: "status", Short: "Show how the fleet is, the worst first", Long: statusHelp,
		Example: "  dibs status\n  dibs status --watch\n  dibs status -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && o.watch != 0 {
				return fmt.Errorf("%w: want no arguments; give --watch its pause as in --watch=%s", errUsage, args[0])
			}
			return exactly(0, "no arguments")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStatus(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	cmd.Flags().Var(positive[time.Duration](&o.watch), "watch", "show it again and again, with this pause in between, at least 1s")
	cmd.Flags().Lookup("watch").NoOptDefVal = "5s"
	o.timeout = openTimeout
	cmd.Flags().Var(positive[time.Duration](&o.timeout), "timeout", "bounds opening the store, and then reading it")
	return cmd
}

// statusView is a report as it is shown; its form is stable.
type statusView struct {
	Headline string `json:"headline"`
	Store    string `json:"store"`
	status.Report
	Servers []memberView `json:"servers"`
}

func runStatus(ctx context.Context, e env, o statusOptions) error {
	switch err := o.out.check(); {
	case err != nil:
		return err
	case o.watch != 0 && o.watch < time.Second:
		return usage(fmt.Errorf("--watch %s: want at least 1s", o.watch))
	case o.watch != 0 && o.out == "json":
		return usage(errors.New("--watch is for people: leave out -o json"))
	}
	a, err := resolve(o.store)
	if err != nil {
		return usage(err)
	}
	s := &statusScreen{env: e, o: o, source: newReading(a, o.timeout, logTo(e))}
	defer s.source.close()
	for {
		if err := s.show(ctx); err != nil || o.watch == 0 {
			return err
		}
		select {
		case <-time.After(o.watch):
		case <-ctx.Done():
			return nil
		}
	}
}

// A statusScreen shows the status of a store, once or again and again.
type statusScreen struct {
	env
	o      statusOptions
	source *reading
	// away is since when the store has not answered; zero: it has.
	away time.Time
}

func (s *statusScreen) show(ctx context.Context) error {
	report, err := s.read(ctx)
	if err != nil && !isAway(err) && !errors.Is(err, status.ErrSlow) {
		return err
	}
	if err != nil {
		report = storeAway(s.source.address.String(), err, s.away)
	}
	v := statusView{report.Headline(), s.source.address.String(), report, []memberView{}}
	for _, m := range report.Servers[:min(len(report.Servers), status.MostListed)] {
		v.Servers = append(v.Servers, viewMember(m))
	}
	var told error
	if s.o.out == "json" {
		told = writeJSON(s.stdout, v)
	} else {
		told = s.tell(v)
	}
	if err != nil && s.o.watch == 0 {
		return statusError{exitUnavailable, nil} // the report says why
	}
	return told
}

// read reads the report.
func (s *statusScreen) read(ctx context.Context) (r status.Report, err error) {
	defer func() {
		switch {
		case err == nil || errors.Is(err, status.ErrSlow):
			s.away = time.Time{}
		case s.away.IsZero():
			s.away = time.Now()
		}
	}()
	f, err := s.source.facts(ctx, status.Options{})
	if err != nil {
		return r, err
	}
	return status.Judge(f), nil
}

// storeAway is the report of a store that does not answer or, by err, not to all.
func storeAway(store string, err error, since time.Time) status.Report {
	what := oneLine(err.Error())
	if !strings.Contains(what, store) {
		what = "store " + store + ": " + what
	}
	if !since.IsZero() && time.Since(since) > time.Second {
		what += "; it has not answered since " + stampOf(since)
	}
	p := status.Problem{Severity: status.Critical, Kind: status.StoreAway, Since: since, What: what,
		Cure: "Check that it is up, and that this host reaches it; `dibs doctor` says more. Until then no server starts anything new."}
	if errors.Is(err, status.ErrSlow) {
		p.Severity, p.Kind, p.Cure = status.Warning, status.StoreSlow, "Give it longer with --timeout, or ask from a host nearer to it."
	}
	r := status.Report{Running: []status.Run{}, Due: []status.Due{}, Queues: []status.Queue{}, Problems: []status.Problem{p}}
	return r.Sorted()
}

// mostTold bounds the lines of each part of the screen.
const mostTold = 10

// tell prints the screen at once, so that a terminal that is cleared first does not flicker.
func (s *statusScreen) tell(v statusView) error {
	var b strings.Builder
	e := s.env
	e.stdout = &b
	e.tellProblems(v)
	part := func(title string, n int, header string, rows [][]string, more string, spare ...string) {
		if n == 0 {
			return
		}
		fmt.Fprintf(&b, "\n%s (%d)\n", title, n)
		_ = e.table(header, rows[:min(len(rows), mostTold)], spare...)
		if n > mostTold {
			fmt.Fprintf(&b, "… and %d more: %s\n", n-mostTold, more)
		}
	}
	now := v.At
	var rows [][]string
	for _, r := range v.Running {
		rows = append(rows, []string{r.Job, fmt.Sprintf("%s:%d", r.Host, r.PID), stampOf(r.Since), since(now, r.Since), r.RunID})
	}
	part("RUNNING", v.Numbers.Running, "JOB HOST SINCE FOR RUN", rows, "dibs lease list", "RUN", "SINCE")
	rows = nil
	for _, d := range v.Due {
		rows = append(rows, []string{d.Job, stampOf(d.Tick), since(d.Tick, now)})
	}
	part("DUE WITHIN THE HOUR", v.Numbers.Due, "JOB TICK IN", rows, "dibs job list")
	rows = nil
	servers := slices.Clone(v.Report.Servers)
	slices.SortStableFunc(servers, func(a, b fleet.Member) int { return strings.Compare(a.Host, b.Host) })
	for _, m := range servers {
		rows = append(rows, []string{m.Host, fmt.Sprint(m.PID), memberState(m), duty(m.Process), clockWords(m.ClockOffset), stampOf(m.Since)})
	}
	part("SERVERS AND WORKERS", len(servers), "HOST PID STATE DOES CLOCK SINCE", rows, "dibs server list", "SINCE")
	rows = nil
	for _, q := range v.Queues {
		oldest, state := "-", "-"
		if !q.Oldest.IsZero() {
			oldest = since(now, q.Oldest)
		}
		if q.Paused {
			state = "paused"
		}
		rows = append(rows, []string{q.Queue, fmt.Sprint(q.Waiting), fmt.Sprint(q.Running), fmt.Sprint(q.Failed), fmt.Sprint(q.Workers), oldest, state})
	}
	part("QUEUES", len(rows), "QUEUE WAITING RUNNING FAILED WORKERS OLDEST STATE", rows, "dibs queue list")
	if n := v.Numbers.Locks; n > 0 {
		fmt.Fprintf(&b, "\n%s held beside runs: dibs lease list\n", plural(n, "lock"))
	}
	w := s.stdout
	if s.out.tty {
		w = output.AsIs(w) // each cell and line is clean already
	}
	text := b.String()
	if s.o.watch != 0 && s.out.tty {
		text = "\x1b[H\x1b[2J\x1b[3J" + text
	} else if s.o.watch != 0 {
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// tellProblems prints the headline, which is the worst problem, and each other one, with their cures. What there is no
// room for is a number.
func (e env) tellProblems(v statusView) {
	severity, what := v.State, v.Headline
	for i, p := range v.Problems[:min(len(v.Problems), 2*mostTold)] {
		if i > 0 {
			severity, what = p.Severity, p.What
		}
		fmt.Fprintf(e.stdout, "%s  %s\n", e.painted(severity), printable(what))
		if p.Cure != "" {
			fmt.Fprintf(e.stdout, "          %s\n", printable(p.Cure))
		}
	}
	if len(v.Problems) == 0 {
		fmt.Fprintf(e.stdout, "%s  %s\n", e.painted(severity), printable(what))
	}
	if n := len(v.Problems) - 2*mostTold; n > 0 {
		fmt.Fprintf(e.stdout, "… and %d more: dibs history --failed, dibs doctor, or dibs status -o json\n", n)
	}
}

// painted is a severity in eight columns, as monitors write it, in its colour.
func (e env) painted(s status.Severity) string {
	word := fmt.Sprintf("%-8s", strings.ToUpper(string(s)))
	color := map[status.Severity]string{status.Critical: "\x1b[31m", status.Warning: "\x1b[33m", status.OK: "\x1b[32m", status.Note: "\x1b[36m"}[s]
	if !e.out.color {
		return word
	}
	return color + word + "\x1b[0m"
}

// since is how long after another an instant is, to the second.
func since(now, then time.Time) string { return now.Sub(then).Round(time.Second).String() }
