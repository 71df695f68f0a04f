package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/run"
)

// errNoRun is that a store knows no such run.
var errNoRun = errors.New("no such run")

// runShown is a run with what it printed. Its form is stable.
type runShown struct {
	Job  string     `json:"job"`
	Tick *time.Time `json:"tick"`
	runRecord
	// Printed is how many bytes it printed, or was answered; Output is what is kept of them, as text
	// or, where it is none, in base64.
	Printed   int64   `json:"output_bytes"`
	Truncated bool    `json:"output_truncated,omitempty"`
	Output    *string `json:"output,omitempty"`
	Base64    string  `json:"output_base64,omitempty"`

	kept   []byte
	record run.Record
}

// showRun tells of one run: by its id, or the latest one of a job.
func showRun(ctx context.Context, e env, o historyOptions) error {
	if o.run == "" && o.job == "" {
		return usage(errors.New("--log: name a job, for its latest run, or use --run ID"))
	}
	a, err := resolve(o.store)
	if err != nil {
		return usage(err)
	}
	shown, err := o.findRun(ctx, e, a)
	if errors.Is(err, errNoRun) && o.run == "" && o.mayBeRun() {
		if there, asRun := o.asRun().findRun(ctx, e, a); asRun == nil || !errors.Is(asRun, errNoRun) {
			shown, err = there, asRun
		}
	} else if err == nil && o.run == "" && o.mayBeRun() {
		if _, asRun := o.asRun().findRun(ctx, e, a); asRun == nil {
			sayAmbiguous(e, o.job)
		}
	}
	switch {
	case errors.Is(err, errNoRun) && o.run != "":
		return fmt.Errorf("%w as %s in %s; `dibs history -o json` lists the ids", err, o.run, a)
	case errors.Is(err, errNoRun):
		return fmt.Errorf("%w: %s never ran in %s", err, o.job, a)
	case err != nil:
		return err
	case o.out == "json":
		return writeJSON(e.stdout, shown)
	case o.log:
		return shown.print(e)
	}
	return shown.tell(e)
}

// findRun looks in the store, and, where that does not know the run, has only a copy of it, or does not answer, in
// this host's own directory: runs of scope host are there, and only there is their output.
func (o historyOptions) findRun(ctx context.Context, e env, a address) (runShown, error) {
	shown, err := o.findRunIn(ctx, e, a)
	host, ok := a.besides()
	switch _, copied := mirror.Split(shown.record.Job); {
	case !ok, err == nil && copied == "", err != nil && !errors.Is(err, errNoRun) && !unusable(err):
		return shown, err
	case err == nil:
		o.job, o.run = "", shown.RunID
	}
	if there, hostErr := o.findRunIn(ctx, e, host); hostErr == nil {
		return there, nil
	}
	return shown, err
}

func (o historyOptions) findRunIn(ctx context.Context, e env, a address) (shown runShown, err error) {
	p, err := open(ctx, a.Config, logTo(e))
	if err != nil {
		return shown, err
	}
	defer p.close()
	if p.History == nil {
		return shown, fmt.Errorf("store %s has no history: %w", a, errors.ErrUnsupported)
	}
	if err := deliverBy(ctx, p.Deliver); err != nil {
		fmt.Fprintf(e.stderr, "dibs: outcomes on this host could not be delivered to the store, and are not shown: %v\n", err)
	}
	jobs := []string{""}
	if o.job != "" {
		jobs = names(o.job)
	}
	for _, job := range jobs {
		runs, err := runsNamed(ctx, p.History, history.Query{Job: job, RunID: o.run, Limit: 1})
		if err != nil {
			return shown, fmt.Errorf("read history: %w", err)
		}
		if len(runs) == 0 {
			continue
		}
		if err := inferDead(ctx, p, runs); err != nil {
			return shown, err
		}
		kept, err := p.History.ReadOutput(ctx, runs[0].ID)
		if err != nil {
			return shown, fmt.Errorf("read the output of run %s: %w", runs[0].ID, err)
		}
		return showing(runs[0], kept), nil
	}
	return shown, errNoRun
}

// showing puts a run and what is kept of its output together.
func showing(r run.Record, kept []byte) runShown {
	name, _ := mirror.Split(r.Job) // Host says where it ran
	s := runShown{Job: name, runRecord: recordOf(r), kept: kept, record: r}
	if !r.Tick.IsZero() {
		s.Tick = &r.Tick
	}
	for _, a := range r.Attempts {
		more := a.Printed
		if a.Response != nil {
			more = max(more, a.Response.Body) // of which the attempt passed on the beginning
		}
		s.Printed += more
	}
	s.Printed = max(s.Printed, int64(len(kept)))
	s.Truncated = len(kept) > 0 && int64(len(kept)) < s.Printed
	switch text := string(kept); {
	case kept == nil:
	case utf8.ValidString(text):
		s.Output = &text
	default:
		s.Base64 = base64.StdEncoding.EncodeToString(kept)
	}
	return s
}

// print writes what is kept of the output, byte for byte unless it is for a terminal; what there is to
// say of it goes to standard error.
func (s runShown) print(e env) error {
	switch {
	case s.Outcome == running:
		fmt.Fprintf(e.stderr, "dibs: run %s is still active; its output is kept when it ends\n", s.RunID)
	case s.kept == nil && s.Printed == 0:
		fmt.Fprintf(e.stderr, "dibs: run %s has no output, or it was not kept (see dibs run --help: --no-output, terminals, leftovers)\n", s.RunID)
	case s.kept == nil:
		fmt.Fprintf(e.stderr, "dibs: none of the %d bytes of output of run %s were kept\n", s.Printed, s.RunID)
	case s.Truncated:
		fmt.Fprintf(e.stderr, "dibs: of %d bytes of output of run %s, %d were kept\n", s.Printed, s.RunID, len(s.kept))
	}
	_, err := output.Verbatim(e.stdout).Write(s.kept)
	return err
}

// tell shows the run and its attempts.
func (s runShown) tell(e env) error {
	what := s.Job
	if s.Tick != nil {
		what += " at " + stampOf(*s.Tick)
	}
	outcome := s.Outcome
	if s.Inferred {
		outcome += " (inferred)"
	}
	if s.Reason != "" {
		outcome += ": " + s.Reason
	}
	fmt.Fprintf(e.stdout, "%s\n", printable(fmt.Sprintf("run %s of %s on %s, token %d: %s", s.RunID, what, s.Host, s.Token, outcome)))
	var rows [][]string
	for _, a := range s.Attempts {
		row := []string{strconv.Itoa(a.N), string(a.Outcome), "-", stampOf(a.Started), took(a.Started, a.Ended), "-", strconv.FormatInt(a.Printed, 10), orDash(a.Error)}
		if a.Status != 0 {
			row[2] = strconv.Itoa(a.Status)
		}
		if r := a.Response; r != nil {
			row[5], row[6] = time.Duration(r.FirstByte*float64(time.Second)).Round(time.Millisecond).String(), strconv.FormatInt(r.Body, 10)
		}
		rows = append(rows, row)
	}
	if id := enqueuedBy(s.Attempts); id != 0 {
		fmt.Fprintf(e.stdout, "its task is %d, in the store of the job\n", id)
	}
	return e.table("ATTEMPT OUTCOME STATUS STARTED TOOK FIRST_BYTE BYTES ERROR", rows, "FIRST_BYTE", "STARTED")
}
