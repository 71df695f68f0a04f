package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

func newQueue(e env) *cobra.Command {
	return group(&cobra.Command{Use: "queue", Short: "Queues: list, show, pause, resume, drain, clear, limit"},
		newQueueList(e), newQueueShow(e), newQueueWorkers(e), newQueuePause(e), newQueueResume(e), newQueueDrain(e), newQueueClear(e), newQueueLimit(e))
}

// subQueueView is one kind in one queue; its form is stable.
type subQueueView struct {
	Queue   string             `json:"queue"`
	Kind    string             `json:"kind"`
	Depth   map[task.State]int `json:"depth"`
	Oldest  time.Time          `json:"oldest,omitzero"`
	Age     float64            `json:"oldest_age_seconds"`
	Paused  *pauseView         `json:"paused,omitempty"`
	Workers int                `json:"workers"`
}

type pauseView struct {
	Queue string    `json:"queue,omitempty"`
	Kind  string    `json:"kind,omitempty"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
	By    string    `json:"by"`
	Why   string    `json:"why,omitempty"`
}

func newQueueList(e env) *cobra.Command {
	var store string
	var out format
	cmd := &cobra.Command{Use: "list", Short: "List queues: how many tasks, how old the oldest is, how many workers", Args: exactly(0, "no arguments"),
		Example: "  dibs queue list\n  dibs queue list -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runQueueList(cmd.Context(), e, store, "", out)
		}}
	storeFlag(cmd, &store)
	formatFlag(cmd, &out)
	return cmd
}

func runQueueList(ctx context.Context, e env, flag, only string, out format) error {
	if err := out.check(); err != nil {
		return err
	}
	p, err := openQueue(ctx, e, flag)
	if err != nil {
		return err
	}
	defer p.close()
	views, err := subQueues(ctx, p, only)
	if err != nil {
		return err
	}
	if out == "json" {
		return writeJSON(e.stdout, views)
	}
	return tellSubQueues(e, views)
}

// subQueues are the (queue, kind) pairs of a store with what concerns them.
func subQueues(ctx context.Context, p *opened, only string) ([]subQueueView, error) {
	all, err := p.store.Tasks.Queues(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the queues: %w", err)
	}
	pauses, err := p.store.Tasks.Pauses(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the pauses: %w", err)
	}
	workers, err := p.store.Tasks.Workers(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the workers: %w", err)
	}
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return nil, err
	}
	views := []subQueueView{}
	for _, l := range all {
		if only != "" && l.Queue != only {
			continue
		}
		v := subQueueView{Queue: l.Queue, Kind: l.Kind, Depth: l.Depth, Oldest: l.Oldest}
		if !l.Oldest.IsZero() {
			v.Age = max(now.Sub(l.Oldest).Seconds(), 0)
		}
		for _, w := range workers {
			if slices.Contains(w.Queues, l.Queue) && (len(w.Kinds) == 0 || slices.Contains(w.Kinds, l.Kind)) {
				v.Workers++
			}
		}
		for _, pause := range pauses {
			if pause.Covers(l.Queue, l.Kind, now) {
				v.Paused = viewPause(pause)
			}
		}
		views = append(views, v)
	}
	return append(views, idlePauses(pauses, views, only, now)...), nil
}

func viewPause(p driver.Pause) *pauseView {
	return &pauseView{p.Queue, p.Kind, p.Since, p.Until, p.By, p.Why}
}

// idlePauses are those that hold back nothing now, and so would be found out when there is something.
func idlePauses(pauses []driver.Pause, views []subQueueView, only string, now time.Time) (idle []subQueueView) {
	for _, p := range pauses {
		covers := func(v subQueueView) bool { return p.Covers(v.Queue, v.Kind, now) }
		if (only == "" || p.Queue == "" || p.Queue == only) && !slices.ContainsFunc(views, covers) {
			idle = append(idle, subQueueView{Queue: p.Queue, Kind: p.Kind, Depth: map[task.State]int{}, Paused: viewPause(p)})
		}
	}
	return idle
}

func tellSubQueues(e env, views []subQueueView) error {
	rows := make([][]string, len(views))
	for i, v := range views {
		state := "-"
		if p := v.Paused; p != nil {
			_, words := driver.Pause{Queue: p.Queue, Kind: p.Kind, Until: p.Until, By: p.By, Why: p.Why}.Event()
			state = words
		}
		age := "-"
		if v.Age > 0 {
			age = time.Duration(v.Age * float64(time.Second)).Round(time.Second).String()
		}
		row := []string{orDash(v.Queue), orDash(v.Kind)}
		for _, s := range []task.State{task.Available, task.Blocked, task.Running, task.Scheduled, task.Retryable, task.Failed, task.Crashed} {
			row = append(row, fmt.Sprint(v.Depth[s]))
		}
		rows[i] = append(row, age, fmt.Sprint(v.Workers), state)
	}
	return e.table("QUEUE KIND AVAILABLE BLOCKED RUNNING SCHEDULED RETRYABLE FAILED CRASHED OLDEST WORKERS PAUSED", rows, "RETRYABLE", "SCHEDULED", "CRASHED", "BLOCKED", "WORKERS")
}

func newQueueWorkers(e env) *cobra.Command {
	var store string
	var out format
	cmd := &cobra.Command{Use: "workers", Short: "List the live workers", Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runQueueWorkers(cmd.Context(), e, store, out)
		}}
	storeFlag(cmd, &store)
	formatFlag(cmd, &out)
	return cmd
}

func runQueueWorkers(ctx context.Context, e env, flag string, out format) error {
	if err := out.check(); err != nil {
		return err
	}
	p, err := openQueue(ctx, e, flag)
	if err != nil {
		return err
	}
	defer p.close()
	workers, err := p.store.Tasks.Workers(ctx)
	if err != nil {
		return fmt.Errorf("read the workers: %w", err)
	}
	if out == "json" {
		if workers == nil {
			workers = []driver.Process{}
		}
		return writeJSON(e.stdout, workers)
	}
	rows := make([][]string, len(workers))
	for i, w := range workers {
		kinds := "any"
		if len(w.Kinds) > 0 {
			kinds = strings.Join(w.Kinds, ",")
		}
		rows[i] = []string{w.Host, fmt.Sprint(w.PID), strings.Join(w.Queues, ","), kinds, fmt.Sprintf("%d/%d", w.Running, w.Slots), stampOf(w.Since)}
	}
	return e.table("HOST PID QUEUES KINDS RUNNING SINCE", rows)
}

// queuePauseOptions are the flags of `dibs queue pause` and `resume`.
type queuePauseOptions struct {
	store, queue, kind string
	all                bool
	jobPauseOptions
}

func (o *queuePauseOptions) check(args []string) error {
	o.queue = strings.Join(args, "")
	if len(args) > 1 {
		return fmt.Errorf("%w: want one queue at most", errUsage)
	}
	named := o.queue != "" || o.kind != ""
	if named == o.all {
		return usage(errors.New("name a queue, a --kind, or both; or use --all for everything"))
	}
	return nil
}

func newQueuePause(e env) *cobra.Command {
	o := queuePauseOptions{}
	cmd := &cobra.Command{Use: "pause [QUEUE]", Short: "Stop fetching from a queue, of a kind, or everything",
		Long: `Pause a queue, a kind, a kind in a queue, or everything, for all workers: they fetch none of its tasks until you resume
it. Running tasks go on. Tasks keep their places and their unique keys; unique windows go on.`,
		Example: "  dibs queue pause mail --reason 'provider is down'\n  dibs queue pause --kind send --for 30m --reason 'rate limited'\n  dibs queue pause --all --reason migration",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			return runQueuePause(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	f := cmd.Flags()
	f.StringVar(&o.kind, "kind", "", "this kind of task")
	f.BoolVar(&o.all, "all", false, "everything")
	f.StringVar(&o.why, "reason", "", "the reason, for the record; required")
	f.StringVar(&o.until, "until", "", "the `INSTANT` at which the pause ends by itself (default: when you resume)")
	f.Var(positive[time.Duration](&o.span), "for", "the same as a duration from now")
	return cmd
}

func runQueuePause(ctx context.Context, e env, o queuePauseOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	if o.why == "" {
		return usage(errors.New("--reason is required: say why, for others who find the queue paused"))
	}
	if o.until != "" && o.span != 0 {
		return usage(errors.New("--until and --for both set the end: give one of them"))
	}
	p, err := openQueue(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return err
	}
	pause := driver.Pause{Queue: o.queue, Kind: o.kind, By: whoami(p.Self.Host), Why: o.why}
	if pause.Until, err = o.end(now); err != nil {
		return err
	}
	if err := pause.Check(); err != nil {
		return usage(err)
	}
	if err := p.store.Tasks.Pause(ctx, pause); err != nil {
		return fmt.Errorf("pause %s: %w", pause.What(), err)
	}
	words := "until you resume it"
	if !pause.Until.IsZero() {
		words = "until " + stampOf(pause.Until)
	}
	pause.Since = now
	return e.answer(o.out, viewPause(pause), fmt.Sprintf("%s is paused %s", pause.What(), words))
}

func newQueueResume(e env) *cobra.Command {
	o := queuePauseOptions{}
	cmd := &cobra.Command{Use: "resume [QUEUE]", Short: "End a pause",
		Long:    "End a pause. Name it as when you made it: resuming one queue does not end a pause of everything.",
		Example: "  dibs queue resume mail\n  dibs queue resume --kind send\n  dibs queue resume --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args); err != nil {
				return err
			}
			return runQueueResume(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	cmd.Flags().StringVar(&o.kind, "kind", "", "this kind of task")
	cmd.Flags().BoolVar(&o.all, "all", false, "everything")
	return cmd
}

// resumedView is what is said of a pause that was ended; its form is stable.
type resumedView struct {
	Queue string       `json:"queue,omitempty"`
	Kind  string       `json:"kind,omitempty"`
	Was   bool         `json:"was_paused"`
	Still []*pauseView `json:"still_paused"`
}

func runQueueResume(ctx context.Context, e env, o queuePauseOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	p, err := openQueue(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	what := driver.Pause{Queue: o.queue, Kind: o.kind}.What()
	was, err := p.store.Tasks.Resume(ctx, o.queue, o.kind, whoami(p.Self.Host))
	if err != nil {
		return fmt.Errorf("resume %s: %w", what, err)
	}
	left, err := p.store.Tasks.Pauses(ctx)
	if err != nil {
		return fmt.Errorf("read the pauses: %w", err)
	}
	view, words := resumedView{o.queue, o.kind, was, []*pauseView{}}, what+" is resumed"
	if !was {
		words = what + " was not paused"
	}
	for _, l := range left {
		_, still := l.Event()
		words += "\nstill paused: " + printable(still)
		view.Still = append(view.Still, viewPause(l))
	}
	return e.answer(o.out, view, words)
}
