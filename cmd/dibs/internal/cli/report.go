package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/beneath"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// Outcomes of `dibs run` beside those of ticks.
const (
	contended run.Outcome = "contended" // the lease is held
	duplicate run.Outcome = "duplicate" // the tick was claimed elsewhere
	notDue    run.Outcome = "not_due"   // no tick is due
	notHere   run.Outcome = "not_here"  // it is for other environments
)

// report is what `dibs run --json` writes; its form is stable.
type report struct {
	Key        string        `json:"key"`
	Outcome    run.Outcome   `json:"outcome"`
	Reason     string        `json:"reason,omitempty"`
	RunID      string        `json:"run_id,omitempty"`
	Token      lease.Token   `json:"token,omitempty"`
	Tick       time.Time     `json:"tick,omitzero"`
	HeldBy     *lease.Holder `json:"held_by,omitempty"`
	ExitStatus int           `json:"exit_status"`
	Started    time.Time     `json:"started,omitzero"`
	Ended      time.Time     `json:"ended,omitzero"`

	err    error // to print
	status int   // the command's own
	signal syscall.Signal
}

// report turns the result of a fire into a report.
func (r *runner) report(res scheduler.Result) report {
	rep := report{Key: string(r.key), Outcome: res.Outcome, Reason: res.Reason, err: res.Err,
		RunID: res.Run.ID, Tick: res.Run.Tick, Started: res.Run.Started, Ended: res.Run.Ended}
	if res.Run.ID != "" {
		rep.Token = res.Run.Token
		if n := len(res.Run.Attempts); n > 0 {
			last := res.Run.Attempts[n-1]
			rep.status = last.Status
			if (last.Outcome == run.Failed || last.Outcome == run.Unavailable) && last.Status >= exitInternal && last.Status <= 127 {
				rep.err = errors.Join(rep.err, errors.New(last.Error))
			}
		}
		return rep
	}
	switch {
	case res.Held != nil:
		rep.Outcome = contended
		rep.HeldBy = &res.Held.Record.Holder
		rep.err = fmt.Errorf("%w: %s", res.Held, because(res.Reason))
	case res.Err != nil:
		return r.refused(res.Err)
	}
	return rep
}

func because(reason string) string {
	switch reason {
	case run.ReasonOverlap:
		return "not started"
	case run.ReasonQueueFull:
		return "not started, because another run is already waiting"
	case run.ReasonHolderStuck:
		return "not started, because the holder did not stop when asked"
	case run.ReasonSuperseded:
		return "not started, because a newer run replaced it"
	}
	return reason
}

// refused is the report of a run that got nowhere.
func (r *runner) refused(err error) report {
	rep := report{Key: string(r.key), Outcome: run.Failed, err: err, status: exitInternal}
	var (
		sig  signaled
		held *lease.HeldError
		st   statusError
	)
	switch {
	case errors.As(err, &sig), errors.As(context.Cause(r.signals.waiting), &sig):
		rep.Outcome, rep.signal, rep.err = run.Canceled, sig.Signal, nil
	case errors.As(err, &held):
		rep.Outcome, rep.HeldBy = contended, &held.Record.Holder
	case errors.Is(err, tick.ErrTooLate), errors.Is(err, errNotDue):
		rep.Outcome = notDue
	case errors.Is(err, lease.ErrUnavailable):
		rep.Outcome = run.Unavailable
	case errors.As(err, &st):
		rep.status = st.status
	}
	return rep
}

// duplicate is the report of a server that lost the race for a tick (rule T6).
func (r *runner) duplicate(at time.Time, a tick.Answer) report {
	rep := report{Key: string(r.key), Outcome: duplicate, Tick: at}
	t := a.Tick
	switch {
	case a.Status == tick.Paused:
		rep.Outcome, rep.Reason = run.Paused, r.place.WhyPaused(context.Background(), rep.Key)
		rep.err = fmt.Errorf("%s: not run: %s (dibs job resume %s)", r.key, rep.Reason, r.key)
	case a.Status == tick.Settled:
		rep.err = fmt.Errorf("%s: the tick %s is already settled", r.key, at.Format(time.RFC3339))
	case t.State == tick.Closed:
		rep.err = fmt.Errorf("%s: the tick %s has already ended: %s, on %s", r.key, at.Format(time.RFC3339), t.Outcome, t.Claimant)
	default:
		rep.err = fmt.Errorf("%s: the tick %s was claimed by %s at %s", r.key, at.Format(time.RFC3339), t.Claimant, t.Claimed.Format(time.RFC3339))
	}
	if t.Claimant.Host != "" {
		rep.HeldBy = &t.Claimant
	}
	return rep
}

// exit is the exit status of the report.
func (rep report) exit(contendedExit int) int {
	switch rep.Outcome {
	case run.Succeeded:
		return 0
	case contended, duplicate, notDue, run.Paused:
		return contendedExit
	case run.Unavailable:
		if rep.RunID != "" && rep.status != 0 { // the command could not be started
			return rep.status
		}
		return exitUnavailable
	case run.Lost:
		return exitLost
	case run.TimedOut:
		return exitTimedOut
	}
	if rep.signal != 0 {
		return 128 + int(rep.signal)
	}
	if rep.status == 0 {
		return exitFailed
	}
	return rep.status
}

// status turns a report into the error that ends the program.
func (r *runner) status(rep report) error {
	status := rep.exit(r.contendedExit)
	switch rep.Outcome {
	case contended, duplicate, notDue, run.Paused:
		if r.silent() {
			rep.err = nil
		}
	case run.Unavailable:
		if rep.err == nil {
			rep.err = fmt.Errorf("%s: %s", r.key, rep.Reason)
		}
	case run.Lost:
		rep.err = errors.Join(rep.err, fmt.Errorf("%s: the lease was lost and the command stopped: %s", r.key, rep.Reason))
	case run.TimedOut:
		rep.err = errors.Join(rep.err, fmt.Errorf("%s: stopped after --timeout %s", r.key, r.timeout))
	case run.Replaced:
		rep.err = errors.Join(rep.err, fmt.Errorf("%s: replaced by a newer run", r.key))
	}
	if status == 0 && rep.err == nil {
		return nil
	}
	return statusError{status, rep.err}
}

// write writes the report as one line.
func (rep report) write(until context.Context, to io.Writer, contendedExit int) error {
	rep.ExitStatus = rep.exit(contendedExit)
	return rep.line(until, to)
}

// line writes the report, as it is, as one line.
func (rep report) line(until context.Context, to io.Writer) error {
	b, err := json.Marshal(rep)
	if err != nil {
		return err
	}
	return hand(until, to, append(output.Clean(b), '\n'))
}

// object writes the report as -o json does.
func (rep report) object(until context.Context, to io.Writer) error {
	var b bytes.Buffer
	if err := writeJSON(&b, rep); err != nil {
		return err
	}
	return hand(until, to, b.Bytes())
}

// hand writes b. It waits for a slow reader, since nothing is held any more, but for a second at most once until has
// ended.
func hand(until context.Context, to io.Writer, b []byte) error {
	written := make(chan error, 1)
	go func() {
		_, err := to.Write(b)
		written <- err
	}()
	select {
	case err := <-written:
		return err
	case <-until.Done():
	}
	select {
	case err := <-written:
		return err
	case <-time.After(aside.FlushTime):
		return fmt.Errorf("nobody read the result: %w", context.Cause(until))
	}
}

// openReport makes ready what --json names: nothing, an inherited descriptor, or a file, which is
// written at the end and not touched before. It must come before anything else is opened: a
// descriptor number then still means what the caller meant, and never a store's file.
func openReport(to string) (io.WriteCloser, error) {
	if to == "" {
		return unopened(""), nil
	}
	if fd, err := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(to, "/dev/fd/"), "/proc/self/fd/")); err == nil {
		return inherited(fd)
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory; name a file", to)
	}
	if dir, err := os.Stat(filepath.Dir(to)); err != nil {
		return nil, fmt.Errorf("the directory of the file: %w", err)
	} else if !dir.IsDir() {
		return nil, fmt.Errorf("%s is no directory", filepath.Dir(to))
	}
	return unopened(to), nil
}

// inherited duplicates a descriptor that this process was started with. Those that it opened
// itself are closed on exec, all of them.
func inherited(fd int) (io.WriteCloser, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return nil, fmt.Errorf("descriptor %d is not open; open it when you start dibs, as in: %d>report.json", fd, fd)
	}
	if mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || mode&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, fmt.Errorf("descriptor %d is not open for writing", fd)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d: %w", fd, err)
	}
	if fd > 2 {
		unix.CloseOnExec(fd) // it is for this process, not for a command
	}
	return os.NewFile(uintptr(own), fmt.Sprintf("descriptor %d", fd)), nil
}

// unopened is the path of a file that is made when it is written; "" is none.
type unopened string

func (u unopened) Write(b []byte) (int, error) {
	if u == "" {
		return len(b), nil
	}
	dir, err := beneath.Look(filepath.Dir(string(u)))
	if err != nil {
		return 0, err
	}
	f, err := dir.Create(filepath.Base(string(u)))
	if err != nil {
		return 0, err
	}
	n, err := f.Write(b)
	return n, errors.Join(err, f.Close())
}

func (unopened) Close() error { return nil }
