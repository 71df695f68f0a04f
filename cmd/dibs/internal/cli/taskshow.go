package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/task"
)

func newTaskShow(e env) *cobra.Command {
	var store string
	var out format
	cmd := &cobra.Command{Use: "show ID", Short: "Show one task: its attempts, and why it waits",
		Example: "  dibs task show 4711\n  dibs task show 4711 -o json",
		Args:    exactly(1, "the id of one task"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := taskIDs(args)
			if err != nil {
				return err
			}
			return runTaskShow(cmd.Context(), e, store, ids[0], out)
		}}
	storeFlag(cmd, &store)
	formatFlag(cmd, &out)
	return cmd
}

func runTaskShow(ctx context.Context, e env, flag string, id task.ID, out format) error {
	if err := out.check(); err != nil {
		return err
	}
	p, err := openQueue(ctx, e, flag)
	if err != nil {
		return err
	}
	defer p.close()
	t, held, ok, err := p.store.Tasks.Task(ctx, id)
	if err != nil {
		return fmt.Errorf("read task %d: %w", id, err)
	}
	if !ok {
		return fmt.Errorf("task %d is not in %s: it never existed, or was deleted", id, p.config)
	}
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return err
	}
	v := viewTask(t)
	if v.Why, err = queue.Why(ctx, p.store.Tasks, t, held, now, p.store.Properties.HoldUntil); err != nil {
		return err
	}
	if out == "json" {
		return writeJSON(e.stdout, v)
	}
	v.show(e, now)
	return nil
}

// show prints one task, a fact a line.
func (v taskView) show(e env, now time.Time) {
	line := func(name, value string) { fmt.Fprintf(e.stdout, "%-10s %s\n", name, printable(value)) }
	line("task", fmt.Sprintf("%d, kind %s, queue %s", v.ID, v.Kind, v.Queue))
	state := string(v.State)
	if v.Reason != "" {
		state += ": " + v.Reason
	}
	line("state", state)
	if v.Worker != nil {
		line("worker", fmt.Sprintf("%s pid %d, since %s, token %d", v.Worker.Host, v.Worker.PID, stampOf(v.Started), v.Token))
	}
	if v.Stop != "" {
		line("stop", "it should stop: "+v.Stop)
	}
	for _, w := range v.Why {
		line("waits", w)
	}
	line("args", abridged(string(v.Args), 400))
	place := fmt.Sprintf("priority %d", v.Priority)
	if v.Front {
		place = "moved to the front"
	}
	line("place", place)
	line("enqueued", stampOf(v.Enqueued)+", run at "+stampOf(v.RunAt))
	if !v.Expires.IsZero() {
		line("expires", stampOf(v.Expires))
	}
	if !v.Ended.IsZero() {
		line("ended", stampOf(v.Ended)+", "+now.Sub(v.Ended).Round(time.Second).String()+" ago")
	}
	line("attempts", fmt.Sprintf("%d of %d", v.Attempts-v.Granted, v.Max))
	if v.Crashes > 0 || v.Suspect {
		line("crashes", fmt.Sprintf("%d (suspect: %v)", v.Crashes, v.Suspect))
	}
	if u := v.Unique; u != nil {
		line("unique", u.Key+", until "+string(orFinished(u.Until)))
	}
	if l := v.Limit; l != nil {
		line("limit", fmt.Sprintf("%s, %d at the same time", l.Key, l.Slots()))
	}
	for i, a := range v.History {
		if i > 0 && a.N > v.History[i-1].N+1 {
			line("…", fmt.Sprintf("attempts %d to %d are not kept", v.History[i-1].N+1, a.N-1))
		}
		line(fmt.Sprintf("attempt %d", a.N), fmt.Sprintf("%s at %s on %s, took %s%s", a.Outcome, stampOf(a.Started), orDash(a.Host), took(a.Started, a.Ended), after(": ", abridged(a.Error, 300))))
		for _, more := range further(a.Error) {
			fmt.Fprintf(e.stdout, "           | %s\n", printable(more))
		}
	}
}

// after is text behind sep, and nothing where there is no text.
func after(sep, text string) string {
	if text == "" {
		return ""
	}
	return sep + text
}

func orFinished(u task.Until) task.Until {
	if u == "" {
		return task.UntilFinished
	}
	return u
}

// further are the last lines of a text after its first one.
func further(s string) []string {
	_, rest, _ := strings.Cut(s, "\n")
	if rest == "" {
		return nil
	}
	lines := strings.Split(rest, "\n")
	return lines[max(len(lines)-10, 0):]
}

func abridged(s string, most int) string {
	s, _, _ = strings.Cut(s, "\n")
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// readAll reads r, and refuses more than most bytes.
func readAll(r io.Reader, most int) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("there are more than %d bytes", most)
	}
	return b, err
}

// newLines reads lines of at most most bytes.
func newLines(r io.Reader, most int) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), most+1)
	return s
}
