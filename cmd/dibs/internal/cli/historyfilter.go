package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

// notWell are the outcomes of what did not come to a good end.
var notWell = func() (all []string) {
	for _, o := range status.BadOutcomes {
		all = append(all, string(o))
	}
	return all
}()

// outcomes are all that an entry can say.
var outcomes = append([]string{string(run.Succeeded), string(run.Replaced), string(run.Canceled), string(run.Skipped), string(run.Paused),
	running, waiting, string(tick.Claimed), string(tick.Started)}, notWell...)

// What people are told of a tick before it has ended. JSON has the states of package tick.
const (
	running = "running"
	waiting = "waiting" // claimed, and not started: for its key, or the end of a hold-back
)

// stateWord is an outcome, or what stands for it before the end, in the words for people.
func stateWord(outcome string) string {
	switch outcome {
	case string(tick.Claimed):
		return waiting
	case string(tick.Started):
		return running
	}
	return outcome
}

// mostRead is how many ticks, and how many runs, are looked through for those that a filter asks for.
const mostRead = 10_000

func (o historyOptions) filters() bool {
	return o.failed || o.running || len(o.outcomes) > 0 || o.late > 0
}

func (o historyOptions) checkOutcomes() error {
	for _, want := range o.outcomes {
		if !slices.Contains(outcomes, want) {
			return usage(misspelt("--outcome", want, fmt.Errorf("%q: want one of %s", want, strings.Join(outcomes, ", ")), outcomes...))
		}
	}
	return nil
}

// wants says whether an entry is to be shown.
func (o historyOptions) wants(en entry) bool {
	if en.Late < o.late.Seconds() {
		return false
	}
	word := stateWord(en.Outcome)
	return !o.failed && !o.running && len(o.outcomes) == 0 || o.failed && slices.Contains(notWell, en.Outcome) ||
		o.running && word == running || slices.Contains(o.outcomes, en.Outcome) || slices.Contains(o.outcomes, word)
}

// at is where an entry stands in the list.
func (en entry) at() time.Time {
	if en.Tick != nil {
		return *en.Tick
	}
	return en.Runs[0].Started
}

// lateness is how long after its tick an entry's first run began, or how long its tick has waited for one.
func (en entry) lateness(now time.Time) time.Duration {
	switch {
	case en.Tick == nil:
		return 0
	case len(en.Runs) > 0:
		return max(en.Runs[0].Started.Sub(*en.Tick), 0)
	case en.Outcome == string(tick.Claimed):
		return max(now.Sub(*en.Tick), 0)
	}
	return 0
}

func (en entry) lateText() string {
	switch d := time.Duration(en.Late * float64(time.Second)); {
	case d == 0:
		return ""
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

// cutHistory cuts a list whose latest entry comes first. Entries of the last one's second are shown again, so that
// none is passed over.
func cutHistory[T any](e env, all []T, limit int, at func(T) time.Time) []T {
	return cut(e, all, limit, mostRead, "latest", func(last T) string {
		return "--to " + stampOf(at(last).Truncate(time.Second).Add(time.Second)) + " shows earlier ones"
	})
}

// cut leaves the first entries of a list that has one more than was asked for, if there are so many, and says how to
// see the others: with a larger limit, up to most, or as rest says of the last entry.
func cut[T any](e env, all []T, limit, most int, which string, rest func(last T) string) []T {
	if len(all) < min(limit+1, most) {
		return all
	}
	all = all[:limit]
	more := ""
	if limit < most {
		more = fmt.Sprintf("-n %d shows more, and ", min(10*limit, most))
	}
	fmt.Fprintf(e.stderr, "dibs: these are the %s %d; %s%s\n", which, limit, more, rest(all[limit-1]))
	return all
}

// recall is what is asked for, latest first. A job may be named as in trigger, with a point.
func (o historyOptions) recall(ctx context.Context, e env, p *opened, q history.Query) (all []entry, err error) {
	for _, q.Job = range names(q.Job) {
		if all, err = o.recallOne(ctx, e, p, q); err != nil || len(all) > 0 {
			break
		}
	}
	return all, err
}

func (o historyOptions) recallOne(ctx context.Context, e env, p *opened, q history.Query) ([]entry, error) {
	if !o.filters() {
		q.Limit++
		return recall(ctx, p, q)
	}
	q.Limit = mostRead
	all, err := recall(ctx, p, q)
	if err != nil {
		return nil, err
	}
	read := len(all)
	all = slices.DeleteFunc(all, func(en entry) bool { return !o.wants(en) })
	if read >= mostRead && len(all) < o.limit {
		fmt.Fprintf(e.stderr, "dibs: these are among the latest %d entries; use --to for earlier ones\n", mostRead)
	}
	return all[:min(len(all), o.limit+1)], nil
}

// nothing explains why there is nothing to show of a job. A name that nobody knows is an error.
func (o historyOptions) nothing(ctx context.Context, e env, p *opened) error {
	known, err := isKnown(ctx, p, names(o.job))
	if err != nil {
		return fmt.Errorf("look for the job: %w", err)
	}
	switch {
	case !known:
		return unheard{o.job, p.config.String(), p.meant(ctx, o.job)}
	case o.from != "" || o.to != "" || o.filters():
		fmt.Fprintf(e.stderr, "dibs: no entries of %s match\n", o.job)
	default:
		fmt.Fprintf(e.stderr, "dibs: %s has no runs, and no past ticks\n", o.job)
	}
	return nil
}

// errUnheard is that a store knows nothing of a name.
var errUnheard = errors.New("unknown name")

// unheard is errUnheard of a name and a store.
type unheard struct{ name, store, meant string }

func (u unheard) Error() string {
	return fmt.Sprintf("%s: no history and no registered job has that name in %s; `dibs job list` shows the jobs, and `dibs lease list --all` the keys%s", u.name, u.store, u.meant)
}

func (u unheard) Is(target error) bool { return target == errUnheard }

// isKnown says whether any of some names is that of a registered job, of a key, or of what has run.
func isKnown(ctx context.Context, p *opened, names []string) (bool, error) {
	if p.Ticks != nil {
		if jobs, err := p.Ticks.Jobs(ctx, tick.JobQuery{Names: names}); err != nil || len(jobs) > 0 {
			return true, err
		}
	}
	for _, name := range names {
		q := history.Query{Job: name, Limit: 1}
		ticks, err := p.History.Ticks(ctx, q)
		if err != nil || len(ticks) > 0 {
			return true, err
		}
		runs, err := p.History.Runs(ctx, q)
		if err != nil || len(runs) > 0 {
			return true, err
		}
		key, err := lease.ParseKey(name)
		if err != nil {
			continue
		}
		if _, r, err := p.Keeper.Read(ctx, key); err != nil || r.Token > 0 {
			return true, err
		}
	}
	return false, nil
}
