package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/queue/counters"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

func newQueueShow(e env) *cobra.Command {
	var store string
	var out format
	var since time.Duration
	cmd := &cobra.Command{Use: "show QUEUE", Short: "Show one queue: depth, age, throughput, waiting times, duplicates and discards",
		Long: `Show one queue: how many tasks per kind and state, and the counters of the last hour (--since): how many were enqueued,
were duplicates, succeeded, failed and were discarded, for which reasons, and how long they waited and ran. Times are
upper bounds, by powers of two of milliseconds. It also lists the operators' limits (dibs queue limit) of its kinds, and
the shared ones.`,
		Example: "  dibs queue show mail\n  dibs queue show mail --since 24h -o json",
		Args:    exactly(1, "one queue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runQueueShow(cmd.Context(), e, store, args[0], since, out)
		}}
	storeFlag(cmd, &store)
	formatFlag(cmd, &out)
	cmd.Flags().DurationVar(&since, "since", time.Hour, "how far back the counters go")
	return cmd
}

// queueView is one queue; its form is stable.
type queueView struct {
	Queue   string             `json:"queue"`
	Kinds   []subQueueView     `json:"kinds"`
	Since   time.Time          `json:"since"`
	Numbers []counters.Numbers `json:"numbers"`
	Limits  []limitView        `json:"limits,omitempty"`
}

// limitView is a limit of which an operator said how many may run; its form is stable.
type limitView struct {
	Key      string    `json:"key"`
	Kind     string    `json:"kind,omitempty"` // none: it is shared
	Max      int       `json:"max"`
	Declared int       `json:"declared"`
	By       string    `json:"by"`
	Since    time.Time `json:"since"`
}

// limitsOf are those among words that concern the kinds of a queue: their own, and the shared ones.
func limitsOf(words []driver.Word, kinds []subQueueView) (found []limitView) {
	for _, w := range words {
		v := limitView{Key: w.Key, Max: w.Max, Declared: w.Declared, By: w.By, Since: w.Since}
		if l := (task.Limit{Key: w.Key, Shared: true}); l.Hash("") == w.Hash {
			found = append(found, v)
		}
		for _, sub := range kinds {
			if l := (task.Limit{Key: w.Key}); l.Hash(sub.Kind) == w.Hash {
				v.Kind = sub.Kind
				found = append(found, v)
			}
		}
	}
	return found
}

func tellLimits(e env, limits []limitView) {
	for _, l := range limits {
		whose := "shared"
		if l.Kind != "" {
			whose = "kind " + l.Kind
		}
		fmt.Fprintf(e.stdout, "\nlimit %s (%s): %d at the same time, set by %s at %s; its tasks declare %d (dibs queue limit KEY declared removes it)\n",
			printable(l.Key), printable(whose), l.Max, printable(orDash(l.By)), stampOf(l.Since), l.Declared)
	}
}

func runQueueShow(ctx context.Context, e env, flag, name string, since time.Duration, out format) error {
	if err := out.check(); err != nil {
		return err
	}
	if since < time.Minute {
		return usage(fmt.Errorf("--since %s: dibs counts by the minute: want at least 1m", since))
	}
	p, err := openQueue(ctx, e, flag)
	if err != nil {
		return err
	}
	defer p.close()
	now, err := p.Keeper.Now(ctx)
	if err != nil {
		return err
	}
	v := queueView{Queue: name, Since: now.Add(-since).Truncate(time.Minute)}
	if v.Kinds, err = subQueues(ctx, p, name); err != nil {
		return err
	}
	counts, err := p.store.Tasks.Counts(ctx, v.Since, now.Add(time.Minute))
	if err != nil {
		return fmt.Errorf("read the counters: %w", err)
	}
	counts = slices.DeleteFunc(counts, func(c driver.Count) bool { return c.Queue != name })
	v.Numbers = counters.Summarize(counts, now.Sub(v.Since))
	words, err := p.store.Tasks.Limits(ctx)
	if err != nil {
		return fmt.Errorf("read the limits: %w", err)
	}
	v.Limits = limitsOf(words, v.Kinds)
	if out == "json" {
		return writeJSON(e.stdout, v)
	}
	if err := tellSubQueues(e, v.Kinds); err != nil {
		return err
	}
	tellLimits(e, v.Limits)
	for _, n := range v.Numbers {
		var words []string
		for _, c := range slices.Sorted(maps.Keys(n.Counts)) {
			words = append(words, fmt.Sprintf("%d %s", n.Counts[c], c))
		}
		fmt.Fprintf(e.stdout, "\n%s since %s: %s\n", printable(n.Kind), stampOf(v.Since), strings.Join(words, ", "))
		fmt.Fprintf(e.stdout, "  %.2f succeeded per second; waited %s; worked %s\n", n.PerSecond, atMost(n.Wait), atMost(n.Work))
	}
	return nil
}

func atMost(q counters.Quantiles) string {
	if q.N == 0 {
		return "-"
	}
	return fmt.Sprintf("p50 ≤ %gs, p99 ≤ %gs, max ≤ %gs", q.P50, q.P99, q.Max)
}
