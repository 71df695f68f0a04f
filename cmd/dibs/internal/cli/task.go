package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

func newTask(e env) *cobra.Command {
	return group(&cobra.Command{Use: "task", Short: "Tasks: enqueue, list, show, retry, cancel, promote, move …"},
		slices.Concat([]*cobra.Command{newTaskEnqueue(e), newTaskList(e), newTaskShow(e)}, newTaskActs(e))...)
}

// openQueue opens a store for its queues.
func openQueue(ctx context.Context, e env, flag string) (*opened, error) {
	a, err := resolve(flag)
	if err != nil {
		return nil, usage(err)
	}
	return openQueueAt(ctx, e, a)
}

func openQueueAt(ctx context.Context, e env, a address) (*opened, error) {
	p, err := open(ctx, a.Config, logTo(e))
	if err != nil {
		return nil, err
	}
	if p.store.Queue == nil || p.store.Tasks == nil {
		p.close()
		return nil, fmt.Errorf("store %s has no queues: %w", p.config, errors.ErrUnsupported)
	}
	return p, nil
}

// taskView is what is shown of a task; its form is stable.
type taskView struct {
	ID         task.ID         `json:"id"`
	Queue      string          `json:"queue"`
	Kind       string          `json:"kind"`
	State      task.State      `json:"state"`
	Args       json.RawMessage `json:"args"`
	Priority   int             `json:"priority"`
	Front      bool            `json:"front,omitempty"`
	Tags       []string        `json:"tags,omitempty"`
	Unique     *task.Unique    `json:"unique,omitempty"`
	Limit      *task.Limit     `json:"limit,omitempty"`
	Enqueued   time.Time       `json:"enqueued"`
	RunAt      time.Time       `json:"run_at"`
	Expires    time.Time       `json:"expires_at,omitzero"`
	Started    time.Time       `json:"started,omitzero"`
	Ended      time.Time       `json:"ended,omitzero"`
	Attempts   int             `json:"attempts"`
	Granted    int             `json:"granted,omitempty"`
	Max        int             `json:"max_attempts"`
	RetryUntil time.Time       `json:"retry_until,omitzero"`
	Backoff    []float64       `json:"backoff_seconds,omitempty"`
	Timeout    float64         `json:"timeout_seconds,omitempty"`
	Crashes    int             `json:"crashes,omitempty"`
	Snoozes    int             `json:"snoozes,omitempty"`
	Suspect    bool            `json:"suspect,omitempty"`
	Token      int64           `json:"token,omitempty"`
	Worker     *driver.Process `json:"worker,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Stop       string          `json:"stop,omitempty"`
	History    []task.Attempt  `json:"history,omitempty"`
	Why        []string        `json:"why,omitempty"`
}

func viewTask(t driver.Task) taskView {
	v := taskView{ID: t.ID, Queue: t.Queue, Kind: t.Kind, State: t.State, Args: t.Args, Priority: t.Priority, Front: t.Front,
		Tags: t.Tags, Unique: t.Unique, Limit: t.Limit, Enqueued: t.Enqueued, RunAt: t.RunAt, Expires: t.ExpiresAt,
		Started: t.Started, Ended: t.Ended, Attempts: t.Attempts, Granted: t.Granted, Max: t.AttemptBudget(),
		RetryUntil: t.RetryUntil, Timeout: t.Timeout.Seconds(), Crashes: t.Crashes, Snoozes: t.Snoozes, Suspect: t.Suspect,
		Token: int64(t.Token), Reason: t.Reason, Stop: t.Stop, History: t.History}
	if t.Backoff != nil {
		for _, d := range t.Backoff.List {
			v.Backoff = append(v.Backoff, d.Seconds())
		}
	}
	if t.State == task.Running {
		v.Worker = &t.Worker
	}
	return v
}

// taskEnqueueOptions are the flags of `dibs task enqueue`.
type taskEnqueueOptions struct {
	store, args, runAt, expires, retryUntil string
	unique, until, again                    string
	limit, contention                       string
	window, maxWait                         time.Duration
	backoff                                 []time.Duration
	slots                                   int
	uniqueShared, limitShared               bool
	spec                                    task.Spec
	out                                     format
}

const taskEnqueueHelp = `Enqueue a task. KIND says which handler a worker uses for it. The answer is "enqueued" with the id of the new task, or
"duplicate" with the id and the state of the task that has the same unique key. Both exit 0 (see --duplicate-exit).

The task's arguments are JSON: --args JSON, or --args - to read them from standard input. With --batch, each line of
standard input is the arguments of one task. dibs enqueues them in steps of a thousand, and prints an answer for each.

--unique-key K  while a task of this kind and key exists, another one is a duplicate. The key is held across retries,
                and freed when the task ends (--unique-until started: at its first start). With --again replace, a
                duplicate gives the waiting task its arguments; with --again debounce it also postpones it.
--limit-key K   at most --limit tasks of this kind and key run at once. The others wait, keep their place, and use no
                attempt.

In a command that dibs runs, you need no --store: the task goes into the store of that dibs.`

func newTaskEnqueue(e env) *cobra.Command {
	o := taskEnqueueOptions{}
	var batch bool
	var duplicate int
	cmd := &cobra.Command{Use: "enqueue KIND", Short: "Enqueue a task", Long: taskEnqueueHelp,
		Example: `  dibs task enqueue send-mail --args '{"to": 7}'
  dibs task enqueue reindex --unique-key shop --delay 30s --queue slow
  dibs task enqueue import --limit-key supplier-9 --args - < import.json
  dibs task enqueue resize --batch < lines.jsonl`,
		Args: exactly(1, "one kind"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.spec.Kind = args[0]
			return runTaskEnqueue(cmd.Context(), e, o, batch, duplicate)
		}}
	f := cmd.Flags()
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	f.StringVar(&o.args, "args", "", "arguments as `JSON`, at most 256 KiB; - reads them from standard input")
	f.BoolVar(&batch, "batch", false, "one task per line of standard input")
	f.IntVar(&duplicate, "duplicate-exit", 0, "exit status if the task is a duplicate")
	f.StringVar(&o.spec.Queue, "queue", task.DefaultQueue, "the queue")
	f.IntVar(&o.spec.Priority, "priority", 0, "-9 to 9; a higher one is fetched sooner")
	f.DurationVar(&o.spec.Delay, "delay", 0, "not before this long from now")
	f.StringVar(&o.runAt, "run-at", "", "not before this `INSTANT`")
	f.StringVar(&o.expires, "expires-at", "", "discard the task if it still waits at this `INSTANT`")
	f.Var(positive[int](&o.spec.MaxAttempts), "max-attempts", "at most this many attempts (default 25)")
	f.StringVar(&o.retryUntil, "retry-until", "", "no retry begins after this `INSTANT`")
	f.DurationSliceVar(&o.backoff, "backoff", nil, "pauses after failed attempts, such as 10s,1m,10m; the last one repeats (default 1s,\ndoubled up to 1h)")
	f.Var(positive[time.Duration](&o.spec.Timeout), "timeout", "bounds each attempt (default: the worker's)")
	f.Var(positive[int](&o.spec.MaxCrashes), "max-crashes", "how often its worker may die while it runs (default 3)")
	f.StringSliceVar(&o.spec.Tags, "tag", nil, "a word to search for; may be repeated")
	f.StringVar(&o.unique, "unique-key", "", "only one task of this kind and key may exist")
	f.BoolVar(&o.uniqueShared, "unique-shared", false, "the unique key is the same for all kinds")
	f.StringVar(&o.until, "unique-until", "finished", "hold the unique key until the task is finished or started")
	f.DurationVar(&o.window, "unique-window", 0, "hold the key this much longer after success")
	f.StringVar(&o.again, "again", "refuse", "what a duplicate does: refuse, replace or debounce (the last two need\n--unique-until started)")
	f.Var(positive[time.Duration](&o.maxWait), "max-wait", "how far debounce may postpone a task in total (default 10 times --delay)")
	f.StringVar(&o.limit, "limit-key", "", "the key of a limit: see --limit")
	o.slots = 1
	f.Var(positive[int](&o.slots), "limit", "how many tasks of --limit-key run at once")
	f.BoolVar(&o.limitShared, "limit-shared", false, "the limit's key is the same for all kinds")
	f.StringVar(&o.contention, "on-contention", "wait", "when the limit is reached: wait, discard or replace")
	return cmd
}

// complete turns flags into the Spec.
func (o *taskEnqueueOptions) complete(cmdArgs []byte) (task.Spec, error) {
	s := o.spec
	s.Args = cmdArgs
	for flag, to := range map[string]*time.Time{"run-at": &s.RunAt, "expires-at": &s.ExpiresAt, "retry-until": &s.RetryUntil} {
		text := map[string]string{"run-at": o.runAt, "expires-at": o.expires, "retry-until": o.retryUntil}[flag]
		if text == "" {
			continue
		}
		t, err := parseTime("--"+flag, text)
		if err == nil && t.IsZero() {
			err = usage(fmt.Errorf("--%s %q: want an instant from 1970 on", flag, text))
		}
		if err != nil {
			return s, err
		}
		*to = t
	}
	if o.unique != "" {
		s.Unique = &task.Unique{Key: o.unique, Shared: o.uniqueShared, Until: task.Until(o.until), Window: o.window,
			Again: task.Again(o.again), MaxWait: o.maxWait}
	} else if o.again != "refuse" || o.window != 0 || o.until != "finished" || o.uniqueShared || o.maxWait != 0 {
		return s, usage(errors.New("--again, --max-wait, --unique-until, --unique-window and --unique-shared go with --unique-key"))
	}
	if o.limit != "" {
		s.Limit = &task.Limit{Key: o.limit, Shared: o.limitShared, Max: o.slots, OnContention: task.Contention(o.contention)}
	} else if o.slots != 1 || o.limitShared || o.contention != "wait" {
		return s, usage(errors.New("--limit, --limit-shared and --on-contention go with --limit-key"))
	}
	if len(o.backoff) > 0 {
		s.Backoff = &task.Backoff{List: o.backoff}
	}
	if err := s.Check(); err != nil {
		return s, usage(flagged(err))
	}
	return s, nil
}

// specFlags are the flags, or arguments, that fill the fields of a task.
var specFlags = map[string]string{
	"kind": "KIND", "queue": "--queue", "args": "--args", "run_at": "--run-at", "delay": "--delay", "expires_at": "--expires-at",
	"retry_until": "--retry-until", "timeout": "--timeout", "backoff": "--backoff", "backoff.list": "--backoff", "priority": "--priority",
	"max_attempts": "--max-attempts", "max_crashes": "--max-crashes", "tags": "--tag", "unique": "--unique-window, --max-wait",
	"unique.key": "--unique-key", "unique.until": "--unique-until", "unique.again": "--again", "unique.window": "--unique-window",
	"limit.key": "--limit-key", "limit.max": "--limit", "limit.on_contention": "--on-contention",
}

// flagged says of an error in a task which flag it is about.
func flagged(err error) error {
	var spec *task.SpecError
	if !errors.As(err, &spec) || specFlags[spec.Field] == "" {
		return err
	}
	return flagError{specFlags[spec.Field], spec.Problem}
}

// flagError is an error in the value of a flag.
type flagError struct{ flag, problem string }

func (f flagError) Error() string { return f.flag + ": " + f.problem }

// enqueuedView is the answer to an enqueue; its form is stable.
type enqueuedView struct {
	Outcome   task.Admission `json:"outcome"`
	ID        task.ID        `json:"id,omitempty"` // none where it is undecided
	State     task.State     `json:"state,omitempty"`
	UniqueKey string         `json:"unique_key,omitempty"`
}

func runTaskEnqueue(ctx context.Context, e env, o taskEnqueueOptions, batch bool, duplicateExit int) error {
	if err := o.out.check(); err != nil {
		return err
	}
	specs, err := o.specs(e, batch)
	if err != nil {
		return err
	}
	client, done, err := enqueuer(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer done()
	answers, err := client.EnqueueMany(ctx, specs)
	duplicates := 0
	views := make([]enqueuedView, len(answers))
	for i, a := range answers {
		views[i] = enqueuedView{Outcome: a.Answer, ID: a.ID, State: a.State}
		if u := specs[i].Unique; u != nil {
			views[i].UniqueKey = u.Key
		}
		if a.Answer == task.Duplicate {
			duplicates++
		}
	}
	switch {
	case o.out == "json" && !batch && len(views) == 1:
		err = errors.Join(err, writeJSON(e.stdout, views[0]))
	case o.out == "json":
		err = errors.Join(err, writeJSON(e.stdout, views))
	default:
		for _, v := range views {
			switch v.Outcome {
			case task.Duplicate:
				fmt.Fprintf(e.stdout, "duplicate of task %d, which is %s\n", v.ID, v.State)
			case task.Undecided:
				fmt.Fprintln(e.stdout, "undecided: nothing was enqueued")
			default:
				fmt.Fprintf(e.stdout, "%s: task %d, %s\n", v.Outcome, v.ID, v.State)
			}
		}
	}
	switch {
	case errors.Is(err, queue.ErrUndecided):
		return statusError{exitContended, fmt.Errorf("%w; try again later", err)}
	case err == nil && duplicates > 0 && duplicateExit != 0:
		return statusError{duplicateExit, nil}
	}
	return err
}

type enqueuesMany interface {
	EnqueueMany(context.Context, []task.Spec) ([]task.Enqueued, error)
}

// enqueuer is the way to a store's queue: through the dibs that runs this command, where it knows no other.
func enqueuer(ctx context.Context, e env, flag string) (c enqueuesMany, done func(), err error) {
	if c, ok := via(flag); ok {
		return c, func() {}, nil
	}
	p, err := openQueue(ctx, e, flag)
	if err != nil {
		return nil, nil, err
	}
	client := queue.NewClient(queue.ClientOptions{Store: p.store.Queue})
	return client, func() { client.Close(); p.close() }, nil
}

// specs are the tasks that the command line, or standard input, describes.
func (o *taskEnqueueOptions) specs(e env, batch bool) ([]task.Spec, error) {
	if !batch {
		args := []byte(o.args)
		if o.args == "-" {
			b, err := readAll(e.stdin, task.MaxArgs)
			if err == nil && len(bytes.TrimSpace(b)) == 0 { // of a pipe whose other end failed
				err = errors.New("standard input is empty; use null for no arguments")
			}
			if err != nil {
				return nil, usage(fmt.Errorf("--args -: %w", err))
			}
			args = b
		}
		s, err := o.complete(args)
		var bad flagError
		if errors.As(err, &bad) && bad.flag == "--args" && o.args != "-" && !json.Valid(args) {
			err = usage(fmt.Errorf("%w; in a shell, put JSON in single quotes, as in --args '{\"to\": 7}'", err))
		}
		return []task.Spec{s}, err
	}
	if o.args != "" {
		return nil, usage(errors.New("--batch reads arguments from standard input; leave --args out"))
	}
	var specs []task.Spec
	lines := newLines(e.stdin, task.MaxArgs)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		s, err := o.complete([]byte(lines.Text()))
		var bad flagError
		if errors.As(err, &bad) && bad.flag == "--args" { // which are the line
			err = errors.New(bad.problem)
		}
		if err != nil {
			return nil, usage(fmt.Errorf("line %d: %w", n, err))
		}
		specs = append(specs, s)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, usage(fmt.Errorf("a line after task %d is longer than %d bytes, the most for arguments", len(specs), task.MaxArgs))
	}
	return specs, lines.Err()
}
