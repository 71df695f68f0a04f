package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/command"
)

// leftoversAfter is how long after its command's end a task that still waits for processes of it is worth a line.
const leftoversAfter = 2 * time.Second

// do runs the command for one task.
func (w *Worker) do(ctx context.Context, r *queue.Run) error {
	runID := run.NewID()
	tail := w.output(r, runID)
	id := strconv.FormatInt(int64(r.ID), 10)
	t := command.Target{Args: w.o.Command, Input: r.Args, Env: w.inner.Environ(os.Environ()), Enter: w.inner.Enter, ExtraEnv: []string{
		"DIBS_TASK=" + id, "DIBS_KIND=" + r.Kind, "DIBS_QUEUE=" + r.Queue, "DIBS_TAGS=" + strings.Join(r.Tags, ",")},
		LeftoversAfter: leftoversAfter, OnLeftovers: func(status int, pids []int) {
			w.log.Warn("a task's command has ended, but processes that it started still run: the task, its slot and its keys wait for them",
				"event", "task-leftovers", "task", r.ID, "kind", r.Kind, "queue", r.Queue, "attempt", r.Attempt, "status", status, "processes", pids)
		}}
	res := t.Attempt(ctx, run.Call{Run: run.Record{ID: runID, Job: r.Queue + "/" + r.Kind, Token: r.Token}, Attempt: r.Attempt,
		Lease: r.Lease, IdempotencyKey: "task/" + id, StopGrace: w.o.StopGrace, Output: tail})
	if res.Recorded != nil {
		res.Recorded()
	}
	tail.Close()
	w.log.Debug("task", "task", r.ID, "kind", r.Kind, "attempt", r.Attempt, "outcome", res.Outcome, "status", res.Status)
	switch {
	case res.Outcome == run.Succeeded && !res.Stopped:
		return nil
	case res.Status == exitPostponed && !res.Stopped:
		return queue.Postpone(w.o.Postpone)
	}
	err := res.Err
	if res.Outcome == run.Unavailable {
		host, _ := os.Hostname()
		return queue.NotStarted(fmt.Errorf("it could not be started on %s: %w", host, err))
	}
	if err == nil {
		err = fmt.Errorf("exit status %d", res.Status)
	}
	if !res.Stopped && errors.Is(context.Cause(ctx), queue.ErrTimedOut) {
		err = fmt.Errorf("%w; processes that it started went on until the task's time was over", err)
	}
	if end := tail.End(); end != "" {
		err = fmt.Errorf("%w\n%s", err, end)
	}
	if res.Final { // it could not be executed at all; another attempt may find it mended
		return fmt.Errorf("the command could not be started: %w", err)
	}
	return err
}

// output returns where a task's command prints: to this process's streams, a piece at a time, or to the JSON log,
// line by line. A writer that blocks delays no task.
func (w *Worker) output(r *queue.Run, runID string) *output.Tail {
	if w.lines == nil {
		return &output.Tail{To: func(s run.Stream, b []byte) {
			to := w.out
			if s == run.Stderr {
				to = w.err
			}
			if to != nil {
				to.Print(bytes.Clone(b))
			}
		}}
	}
	log := w.lines.Of(output.OfTask(int64(r.ID), r.Kind, r.Queue, r.Attempt, runID)...)
	lines := &output.Lines{Put: func(s run.Stream, line []byte, partial bool) { log.Put(s, line, partial, true) }}
	return &output.Tail{To: lines.Write, Over: lines.End}
}
