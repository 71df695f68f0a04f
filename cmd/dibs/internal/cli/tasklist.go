package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// taskListOptions are the flags of `dibs task list`, and of acts on many tasks.
type taskListOptions struct {
	store         string
	states        []string
	failed        bool
	since         string
	filter        driver.Filter
	after, before int64
	out           format
}

// failedTasks are the states of tasks that came to a bad end. Those that were discarded or canceled were meant to be.
var failedTasks = []task.State{task.Failed, task.Crashed}

// mostTasks is how many tasks one list may have.
const mostTasks = 1000

func (o *taskListOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	storeFlag(cmd, &o.store)
	f.StringVar(&o.filter.Queue, "queue", "", "only of this queue")
	f.StringVar(&o.filter.Kind, "kind", "", "only of this kind")
	f.StringSliceVar(&o.states, "state", nil, "only in these states: "+stateNames(task.States))
	f.BoolVar(&o.failed, "failed", false, "only in these states: "+stateNames(failedTasks))
	f.StringVar(&o.since, "since", "", "only tasks that ended from this `INSTANT` on, or from an age such as 24h; of the others,\nthose enqueued since")
	f.StringVar(&o.filter.Tag, "tag", "", "only with this tag")
	f.StringVar(&o.filter.Unique, "unique-key", "", "only with this unique key")
	f.StringVar(&o.filter.Limit, "limit-key", "", "only with this limit's key")
}

func stateNames(states []task.State) string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

func (o *taskListOptions) selects() (f driver.Filter, err error) {
	f = o.filter
	for _, s := range o.states {
		if s == "waiting" {
			f.States = append(f.States, task.Waits(true)...)
			continue
		}
		if !task.State(s).Valid() {
			return f, usage(fmt.Errorf("--state %s: want one of %s, or waiting", s, stateNames(task.States)))
		}
		f.States = append(f.States, task.State(s))
	}
	if o.failed {
		f.States = append(f.States, failedTasks...)
	}
	if o.since != "" {
		f.Since, err = parseWhen("--since", o.since, time.Now())
	}
	return f, err
}

const taskListHelp = `List tasks, by id: those enqueued first come first. With --failed or --newest, those enqueued last come first.

A list that leaves out tasks says so on standard error, with the flags that show the others.`

func newTaskList(e env) *cobra.Command {
	o := taskListOptions{}
	cmd := &cobra.Command{Use: "list", Short: "List tasks, by id", Long: taskListHelp, Args: exactly(0, "no arguments"),
		Example: `  dibs task list --queue mail --state failed,crashed
  dibs task list --failed --since 8h
  dibs task list --newest -n 20
  dibs task list --failed --before 4711
  dibs task list --unique-key shop -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f := cmd.Flags(); !f.Changed("newest") {
				o.filter.Newest = o.failed
			}
			return runTaskList(cmd.Context(), e, o)
		}}
	o.flags(cmd)
	formatFlag(cmd, &o.out)
	f := cmd.Flags()
	f.IntVarP(&o.filter.Max, "max", "n", 100, "at most this many, 1 to 1000")
	f.BoolVar(&o.filter.Newest, "newest", false, "the highest ids first; the default with --failed")
	f.Int64Var(&o.after, "after", 0, "only ids above this one: the last id of the previous list")
	f.Int64Var(&o.before, "before", 0, "only ids below this one: the last id of the previous list, newest first")
	return cmd
}

func (o *taskListOptions) query() (f driver.Filter, err error) {
	if err := o.out.check(); err != nil {
		return f, err
	}
	if f, err = o.selects(); err != nil {
		return f, err
	}
	f.After, f.Before = task.ID(o.after), task.ID(o.before)
	switch {
	case f.Max < 1 || f.Max > mostTasks:
		return f, usage(fmt.Errorf("-n, --max %d: want 1 to %d; --after and --before continue a list", f.Max, mostTasks))
	case f.After < 0 || f.Before < 0:
		return f, usage(errors.New("--after, --before: want the id of a task"))
	}
	return f, nil
}

func runTaskList(ctx context.Context, e env, o taskListOptions) error {
	f, err := o.query()
	if err != nil {
		return err
	}
	p, err := openQueue(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	limit := f.Max
	f.Max = min(limit+1, mostTasks)
	tasks, err := p.store.Tasks.Tasks(ctx, f)
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	tasks = cutTasks(e, tasks, limit, f.Newest)
	views := make([]taskView, len(tasks))
	rows := make([][]string, len(tasks))
	for i, t := range tasks {
		views[i] = viewTask(t)
		key := "-"
		if t.Unique != nil {
			key = t.Unique.Key
		}
		rows[i] = []string{strconv.FormatInt(int64(t.ID), 10), t.Queue, t.Kind, string(t.State), fmt.Sprintf("%d/%d", t.Attempts-t.Granted, t.AttemptBudget()),
			stampOf(t.RunAt), stampOf(t.Ended), key, orDash(t.Reason)}
	}
	if o.out == "json" {
		return writeJSON(e.stdout, views)
	}
	return e.table("ID QUEUE KIND STATE ATTEMPTS RUN_AT ENDED UNIQUE_KEY REASON", rows, "ENDED", "UNIQUE_KEY", "RUN_AT")
}

func cutTasks(e env, tasks []driver.Task, limit int, newest bool) []driver.Task {
	which, rest := "oldest", "--after %d shows later ones"
	if newest {
		which, rest = "newest", "--before %d shows earlier ones"
	}
	return cut(e, tasks, limit, mostTasks, which, func(last driver.Task) string { return fmt.Sprintf(rest, last.ID) })
}
