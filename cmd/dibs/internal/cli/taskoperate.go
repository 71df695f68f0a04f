package cli

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// taskOpOptions are the flags of the commands that do something to tasks.
type taskOpOptions struct {
	taskListOptions
	action   driver.OpRequest
	ids      []task.ID
	all, yes bool
	runAt    string
	priority int
}

// taskVerb is one such command.
type taskVerb struct {
	act               driver.Operation
	name, short, long string
	states            []task.State // what it applies to, where the filter says no states
}

var taskVerbs = []taskVerb{
	{driver.OpRetry, "retry", "Run finished or failing tasks again, at once", `Run final tasks again, or failing ones now. A task keeps its history and gets one fresh budget of attempts. It takes its
unique key again; if another task has the key, the answer is duplicate.`,
		[]task.State{task.Failed, task.Crashed, task.Retryable}},
	{driver.OpCancel, "cancel", "Cancel waiting or running tasks", `Cancel tasks: a waiting task ends at once; a running one is asked to stop, and then ends as canceled.`,
		[]task.State{task.Scheduled, task.Available, task.Blocked, task.Retryable, task.Running}},
	{driver.OpPromote, "promote", "Move waiting tasks to the front of their queue", "Move waiting tasks before all others of their queue, and make them due now.", task.Waits(true)},
	{driver.OpDiscard, "discard", "End waiting tasks without running them", "End waiting tasks as discarded: they never run, and never count as a success. Their unique keys are free.", task.Waits(true)},
	{driver.OpMove, "move", "Put waiting tasks into another queue", "Put waiting tasks into the queue that --to names.", task.Waits(true)},
	{driver.OpEdit, "edit", "Change the priority or the instant of waiting tasks", "Change the priority or the instant of waiting tasks.", task.Waits(true)},
	{driver.OpDelete, "delete", "Delete finished tasks", "Delete final tasks, and the rest of their unique windows.",
		[]task.State{task.Succeeded, task.Failed, task.Discarded, task.Canceled, task.Crashed}},
}

// example is the flag without which the command does nothing.
func (v taskVerb) example() string {
	switch v.act {
	case driver.OpMove:
		return " --to slow"
	case driver.OpEdit:
		return " --priority 5"
	}
	return ""
}

func newTaskActs(e env) []*cobra.Command {
	var all []*cobra.Command
	for _, v := range taskVerbs {
		all = append(all, newTaskAct(e, v))
	}
	return all
}

func newTaskAct(e env, v taskVerb) *cobra.Command {
	o := taskOpOptions{action: driver.OpRequest{Operation: v.act}}
	cmd := &cobra.Command{Use: v.name + " [ID…]", Short: v.short,
		Long: v.long + `

Name tasks by id, or select them by flags. A selection is only counted, unless you give --yes; then it is processed in
steps of 1,000, and you can interrupt between two steps. dibs records an event with who did it and why.`,
		Example: fmt.Sprintf("  dibs task %[1]s 4711%[2]s --reason 'see T-123'\n  dibs task %[1]s --queue mail --kind send%[2]s --yes", v.name, v.example()),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if o.ids, err = taskIDs(args); err != nil {
				return err
			}
			if cmd.Flags().Changed("priority") {
				o.action.Edit.Priority = &o.priority
			}
			return runTaskOp(cmd.Context(), e, o, v)
		}}
	o.flags(cmd)
	formatFlag(cmd, &o.out)
	f := cmd.Flags()
	f.BoolVar(&o.all, "all", false, "all tasks that it applies to, if no other flag selects")
	f.BoolVarP(&o.yes, "yes", "y", false, "apply it to the selected tasks")
	f.StringVar(&o.action.Why, "reason", "", "the reason, for the event")
	switch v.act {
	case driver.OpMove:
		f.StringVar(&o.action.Queue, "to", "", "the queue to move them to; required")
	case driver.OpEdit:
		f.IntVar(&o.priority, "priority", 0, "-9 to 9; a higher one is fetched sooner")
		f.StringVar(&o.runAt, "run-at", "", "not before this `INSTANT`")
	}
	return cmd
}

func taskIDs(args []string) ([]task.ID, error) {
	ids := make([]task.ID, len(args))
	for i, a := range args {
		n, err := strconv.ParseInt(a, 10, 64)
		if err != nil || n <= 0 {
			return nil, usage(fmt.Errorf("%q is no task's id: want a number", a))
		}
		ids[i] = task.ID(n)
	}
	return ids, nil
}

// check completes the options.
func (o *taskOpOptions) check(v taskVerb) error {
	if err := o.out.check(); err != nil {
		return err
	}
	f, err := o.selects()
	if err != nil {
		return err
	}
	selecting := f.Queue != "" || f.Kind != "" || f.Tag != "" || f.Unique != "" || f.Limit != "" || len(f.States) > 0 || !f.Since.IsZero() || o.all
	switch {
	case len(o.ids) > 0 && selecting:
		return usage(errors.New("name tasks by id or select them by flags, not both"))
	case len(o.ids) == 0 && !selecting:
		return usage(errors.New("name tasks by id, or select them by flags (--all for all)"))
	case len(o.ids) > 1000:
		return usage(fmt.Errorf("%d ids; at most 1000 at a time", len(o.ids)))
	case v.act == driver.OpMove && o.action.Queue == "":
		return usage(errors.New("--to is required: which queue?"))
	case v.act == driver.OpEdit && o.action.Edit.Priority == nil && o.runAt == "":
		return usage(errors.New("name a change: --priority or --run-at"))
	}
	if o.runAt != "" {
		at, err := parseTime("--run-at", o.runAt)
		if err != nil {
			return err
		}
		o.action.Edit.RunAt = &at
	}
	if err := o.action.Check(); err != nil {
		return usage(flagged(err))
	}
	if len(f.States) == 0 {
		f.States = v.states
	}
	o.filter = f
	return nil
}

func runTaskOp(ctx context.Context, e env, o taskOpOptions, v taskVerb) error {
	if err := o.check(v); err != nil {
		return err
	}
	p, err := openQueue(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	o.action.By = whoami(p.Self.Host)
	if len(o.ids) > 0 {
		o.action.IDs = o.ids
		acted, err := p.store.Tasks.Operate(ctx, o.action)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		return tellActed(e, acted, o.out)
	}
	return runBulk(ctx, e, queue.Bulk{Admin: p.store.Tasks, Filter: o.filter, Action: o.action}, v.name, o.yes, o.out)
}

// actedView is the answer for one task; its form is stable.
type actedView struct {
	ID     task.ID         `json:"id"`
	Answer driver.OpAnswer `json:"answer"`
	State  task.State      `json:"state,omitempty"`
	Other  task.ID         `json:"other,omitempty"`
}

func tellActed(e env, acted []driver.OpResult, out format) error {
	views := make([]actedView, len(acted))
	wrong := 0
	for i, a := range acted {
		views[i] = actedView(a)
		if a.Answer != driver.Done && a.Answer != driver.Asking {
			wrong++
		}
	}
	if out == "json" {
		if err := writeJSON(e.stdout, views); err != nil {
			return err
		}
	} else {
		for _, a := range acted {
			fmt.Fprintln(e.stdout, actedWords(a))
		}
	}
	if wrong > 0 {
		return statusError{exitFailed, nil}
	}
	return nil
}

func actedWords(a driver.OpResult) string {
	switch a.Answer {
	case driver.Done:
		return fmt.Sprintf("task %d: %s", a.ID, orDash(string(a.State)))
	case driver.Asking:
		return fmt.Sprintf("task %d: it runs, and was asked to stop", a.ID)
	case driver.NotThere:
		return fmt.Sprintf("task %d: it does not exist, or was deleted", a.ID)
	case driver.Taken:
		return fmt.Sprintf("task %d: its unique key is held by task %d", a.ID, a.Other)
	case driver.Changed:
		return fmt.Sprintf("task %d: it changed in the meantime, and is %s", a.ID, a.State)
	case driver.Busy:
		return fmt.Sprintf("task %d: another transaction has it; try again", a.ID)
	}
	return fmt.Sprintf("task %d: it is %s, so this does not apply to it", a.ID, a.State)
}

// bulkView is the result of an act on many tasks; its form is stable.
type bulkView struct {
	Act        driver.Operation        `json:"act"`
	Tasks      int                     `json:"tasks"`
	States     map[task.State]int      `json:"states,omitempty"`
	Preview    bool                    `json:"preview,omitempty"`
	Answers    map[driver.OpAnswer]int `json:"answers,omitempty"`
	Exceptions []actedView             `json:"exceptions,omitempty"`
}

// runBulk is doBulk whose result is all that there is to tell.
func runBulk(ctx context.Context, e env, b queue.Bulk, name string, yes bool, out format) error {
	v, err := doBulk(ctx, e, b, name, yes, out)
	if out == "json" && v.Act != "" {
		return errors.Join(err, writeJSON(e.stdout, v))
	}
	return err
}

// doBulk previews, and with yes acts, with its progress on standard error. It tells people its result; JSON is its
// caller's.
func doBulk(ctx context.Context, e env, b queue.Bulk, name string, yes bool, out format) (v bulkView, err error) {
	pre, err := b.Preview(ctx)
	if err != nil {
		return v, fmt.Errorf("count the tasks: %w", err)
	}
	v = bulkView{Act: b.Action.Operation, Tasks: pre.Tasks, States: pre.States, Preview: !yes}
	if !yes || pre.Tasks == 0 {
		if out == "json" {
			return v, nil
		}
		if pre.Tasks == 0 {
			fmt.Fprintf(e.stdout, "nothing to %s: no task matches\n", name)
		} else {
			fmt.Fprintf(e.stdout, "%s would be affected (%s)\n", plural(pre.Tasks, "task"), statesWords(pre.States))
			fmt.Fprintf(e.stdout, "nothing was done; add --yes to %s them\n", name)
		}
		return v, nil
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second one ends it at once
	last := time.Now()
	done, err := b.Do(ctx, pre.Last, func(p queue.Progress) {
		if time.Since(last) > time.Second {
			last = time.Now()
			fmt.Fprintf(e.stderr, "%d of %d\n", p.Tasks, pre.Tasks)
		}
	})
	v.Tasks, v.Answers, v.States = done.Tasks, done.Answers, nil
	for _, a := range done.Exceptions {
		v.Exceptions = append(v.Exceptions, actedView(a))
	}
	if out != "json" {
		for _, a := range done.Exceptions {
			fmt.Fprintln(e.stdout, actedWords(a))
		}
		fmt.Fprintf(e.stdout, "%s: %d of %s\n", name, done.Answers[driver.Done]+done.Answers[driver.Asking], plural(pre.Tasks, "task"))
	}
	if err != nil {
		return v, fmt.Errorf("it ended early, and you can run it again: %w", err)
	}
	return v, nil
}

func statesWords(states map[task.State]int) string {
	words := ""
	for _, s := range task.States {
		if states[s] > 0 {
			if words != "" {
				words += ", "
			}
			words += fmt.Sprintf("%d %s", states[s], s)
		}
	}
	return orDash(words)
}
