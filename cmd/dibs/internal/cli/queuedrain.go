package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// queueDrainOptions are the flags of `dibs queue drain` and `dibs queue clear`.
type queueDrainOptions struct {
	store, queue, kind, to, why string
	discard, scheduled, yes     bool
	out                         format
}

const queueDrainHelp = `Drain the backlog of a queue: the tasks that wait in it now, and those that will be tried again later (with --scheduled
also those that never began and are not due yet). Running tasks go on, and new ones are accepted as before.

  without these    wait until the workers have done them, and show the progress
  --discard        end them as discarded; their unique keys are free
  --to QUEUE       move them into another queue

--discard and --to only count, unless you give --yes. They work in steps of 1,000; you can interrupt between two steps.`

func newQueueDrain(e env) *cobra.Command {
	o := queueDrainOptions{}
	cmd := &cobra.Command{Use: "drain QUEUE", Short: "Wait for, discard or move the tasks that wait in a queue", Long: queueDrainHelp,
		Example: "  dibs queue drain mail\n  dibs queue drain mail --to mail-slow --kind newsletter --yes\n  dibs queue drain import --discard --yes --reason 'wrong file'",
		Args:    exactly(1, "one queue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.queue = args[0]
			return runQueueDrain(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	f := cmd.Flags()
	f.StringVar(&o.kind, "kind", "", "only this kind of task")
	f.BoolVar(&o.scheduled, "scheduled", false, "also tasks that never began and are not due yet")
	f.BoolVar(&o.discard, "discard", false, "end them as discarded")
	f.StringVar(&o.to, "to", "", "move them into this queue")
	f.BoolVarP(&o.yes, "yes", "y", false, "do it")
	f.StringVar(&o.why, "reason", "", "the reason, for the event")
	return cmd
}

func runQueueDrain(ctx context.Context, e env, o queueDrainOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	if o.discard && o.to != "" {
		return usage(errors.New("--discard and --to exclude each other"))
	}
	if o.to == o.queue {
		return usage(fmt.Errorf("--to %s: they are in that queue", o.to))
	}
	p, err := openQueue(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	b := queue.Bulk{Admin: p.store.Tasks, Filter: driver.Filter{Queue: o.queue, Kind: o.kind, States: task.Waits(o.scheduled)},
		Action: driver.OpRequest{Operation: driver.OpDiscard, By: whoami(p.Self.Host), Why: o.why}}
	switch {
	case o.to != "":
		b.Action.Operation, b.Action.Queue = driver.OpMove, o.to
		if err := b.Action.Check(); err != nil {
			return usage(err)
		}
		return runBulk(ctx, e, b, "move", o.yes, o.out)
	case o.discard:
		return runBulk(ctx, e, b, "discard", o.yes, o.out)
	}
	pre, err := b.Preview(ctx)
	if err != nil {
		return fmt.Errorf("count the tasks: %w", err)
	}
	if pre.Tasks > 0 {
		if err := warnIdle(ctx, e, p, o); err != nil {
			return err
		}
		b.Filter.States = append(b.Filter.States, task.Running)
		if err := b.Drained(ctx, pre.Last, func(left int) {
			fmt.Fprintf(e.stderr, "%d of %s left\n", left, plural(pre.Tasks, "task"))
		}); err != nil {
			return fmt.Errorf("drain %s: %w", o.queue, err)
		}
	}
	if o.out == "json" {
		return writeJSON(e.stdout, map[string]any{"act": "drain", "tasks": pre.Tasks})
	}
	words := fmt.Sprintf("queue %s is drained: %s left it", o.queue, plural(pre.Tasks, "task"))
	if pre.Tasks == 0 {
		words = fmt.Sprintf("queue %s: no task waits in it", o.queue)
	}
	fmt.Fprintln(e.stdout, words)
	return nil
}

// warnIdle says of which tasks of a queue nobody works, since who drains it would wait for ever.
func warnIdle(ctx context.Context, e env, p *opened, o queueDrainOptions) error {
	views, err := subQueues(ctx, p, o.queue)
	for _, v := range views {
		waits := v.Depth[task.Available] + v.Depth[task.Blocked] + v.Depth[task.Retryable]
		switch {
		case waits == 0 || o.kind != "" && o.kind != v.Kind:
		case v.Paused != nil:
			_, words := driver.Pause{Queue: v.Paused.Queue, Kind: v.Paused.Kind, Until: v.Paused.Until, By: v.Paused.By, Why: v.Paused.Why}.Event()
			fmt.Fprintf(e.stderr, "kind %s waits: paused: %s\n", v.Kind, printable(words))
		case v.Workers == 0:
			fmt.Fprintf(e.stderr, "kind %s waits: no live worker handles it in queue %s\n", v.Kind, v.Queue)
		}
	}
	return err
}

func newQueueClear(e env) *cobra.Command {
	o := queueDrainOptions{}
	cmd := &cobra.Command{Use: "clear QUEUE", Short: "Discard the waiting tasks of a queue, and delete the finished ones",
		Long: `Clear a queue: discard all waiting tasks, scheduled ones included, and delete its finished tasks. None of their unique
keys remains, not even in its window. Running tasks go on. Without --yes it only counts.`,
		Example: "  dibs queue clear import --yes --reason 'wrong file'",
		Args:    exactly(1, "one queue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.queue = args[0]
			return runQueueClear(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do it")
	cmd.Flags().StringVar(&o.kind, "kind", "", "only this kind of task")
	cmd.Flags().StringVar(&o.why, "reason", "", "the reason, for the event")
	return cmd
}

func runQueueClear(ctx context.Context, e env, o queueDrainOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	p, err := openQueue(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	b := queue.Bulk{Admin: p.store.Tasks, Filter: driver.Filter{Queue: o.queue, Kind: o.kind, States: task.Waits(true)},
		Action: driver.OpRequest{Operation: driver.OpDiscard, By: whoami(p.Self.Host), Why: o.why}}
	v, err := doBulk(ctx, e, b, "discard", o.yes, o.out)
	views := []bulkView{v}
	if err == nil {
		b.Filter.States, b.Action.Operation = []task.State{task.Succeeded, task.Failed, task.Discarded, task.Canceled, task.Crashed}, driver.OpDelete
		v, err = doBulk(ctx, e, b, "delete", o.yes, o.out)
		views = append(views, v)
	}
	if o.out == "json" {
		return errors.Join(err, writeJSON(e.stdout, views))
	}
	return err
}

func newQueueLimit(e env) *cobra.Command {
	var store, kind string
	var out format
	cmd := &cobra.Command{Use: "limit KEY N|declared", Short: "Change how many tasks of a limit's key run at once",
		Long: `Change how many tasks of a limit's key run at once, whatever the tasks declare. To remove your limit, use the word
declared: then the last declaration applies again. A higher limit starts waiting tasks at once; a lower one stops no
running task. dibs queue show lists the limits that operators changed.`,
		Example: "  dibs queue limit supplier-9 4 --kind import\n  dibs queue limit tenant-7 1           # a key that is shared between kinds\n  dibs queue limit tenant-7 declared    # removes that limit",
		Args:    exactly(2, "a key, and a number or the word declared"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := out.check(); err != nil {
				return err
			}
			return runQueueLimit(cmd.Context(), e, store, out, kind, args[0], args[1])
		}}
	storeFlag(cmd, &store)
	formatFlag(cmd, &out)
	cmd.Flags().StringVar(&kind, "kind", "", "the kind of the key (default: a key shared between kinds)")
	return cmd
}

// changedLimit is what is said of a limit that an operator changed; its form is stable.
type changedLimit struct {
	Key  string `json:"key"`
	Kind string `json:"kind,omitempty"` // none: shared between kinds
	Max  int    `json:"max,omitempty"`  // none: as its tasks declare
}

func runQueueLimit(ctx context.Context, e env, flag string, out format, kind, key, text string) error {
	n, err := strconv.Atoi(text)
	switch back := text == "declared"; {
	case back:
		n = 0
	case err != nil || n < 1 || n > 1_000_000:
		return usage(fmt.Errorf("%q: want a number from 1 to 1000000, or the word declared; to stop tasks, pause them", text))
	}
	p, err := openQueue(ctx, e, flag)
	if err != nil {
		return err
	}
	defer p.close()
	l := task.Limit{Key: key, Shared: kind == ""}
	known, err := p.store.Tasks.SetLimit(ctx, l.Hash(kind), n, whoami(p.Self.Host))
	switch {
	case err != nil:
		return fmt.Errorf("limit %s: %w", key, err)
	case !known:
		return fmt.Errorf("no task ever named the limit %q (kind %s): a key belongs to a kind unless it is shared; name the kind with --kind", key, orDash(kind))
	}
	words := fmt.Sprintf("limit %s: %d at the same time, whatever its tasks declare", key, n)
	if n == 0 {
		words = fmt.Sprintf("limit %s: as its tasks declare", key)
	}
	return e.answer(out, changedLimit{key, kind, n}, words)
}
