package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// The bounds of what is usual in a queue.
const (
	longPause = 24 * time.Hour
	longWait  = time.Hour
	// unworkedFor is how long tasks may be due before it is critical that no worker is there: one that starts anew
	// is soon back.
	unworkedFor = time.Minute
)

// Queues finds tasks that nobody will do, or not soon.
func Queues(subs []driver.SubQueue, workers []driver.Process, pauses []driver.Pause, now time.Time) (all []Problem) {
	for _, p := range pauses {
		if age := now.Sub(p.Since); age > longPause {
			all = append(all, Problem{Severity: Warning, Kind: Paused, Subject: p.Queue, Since: p.Since,
				What: fmt.Sprintf("%s has been paused for %s, by %s%s", p.What(), age.Round(time.Minute), p.By, because(p.Why)),
				Cure: "`dibs queue resume` ends it; a pause with `dibs queue pause --for` ends by itself."})
		}
	}
	for _, l := range subs {
		all = append(all, subQueue(l, workers, pauses, now)...)
	}
	return all
}

// subQueue judges one kind of task in one queue. Nothing is said of what a pause explains.
func subQueue(l driver.SubQueue, workers []driver.Process, pauses []driver.Pause, now time.Time) []Problem {
	waiting := waits(l)
	if l.Oldest.IsZero() || stopped(l, pauses, now) { // what is scheduled may wait for long
		return nil
	}
	age := now.Sub(l.Oldest)
	if !slices.ContainsFunc(workers, func(w driver.Process) bool {
		return slices.Contains(w.Queues, l.Queue) && (len(w.Kinds) == 0 || slices.Contains(w.Kinds, l.Kind))
	}) {
		p := Problem{Severity: Note, Kind: Unworked, Subject: l.Queue, Since: l.Oldest, Count: waiting,
			What: fmt.Sprintf("tasks of kind %s wait in queue %s (%d of them), and no live worker handles them", l.Kind, l.Queue, waiting),
			Cure: "Start a worker for it: `dibs work " + l.Queue + " -- COMMAND`, or queue.Worker."}
		if age > unworkedFor {
			p.Severity = Critical
		}
		return []Problem{p}
	}
	if age > longWait {
		return []Problem{{Severity: Warning, Kind: QueueOld, Subject: l.Queue, Since: l.Oldest, Count: waiting,
			What: fmt.Sprintf("the oldest task of kind %s in queue %s has waited for %s since it was due", l.Kind, l.Queue, age.Round(time.Minute)),
			Cure: "Start more workers or slots; `dibs queue show " + l.Queue + "` has the numbers, `dibs task show ID` says why one waits."}}
	}
	return nil
}

func waits(l driver.SubQueue) (n int) {
	for state, k := range l.Depth {
		if state.Waiting() {
			n += k
		}
	}
	return n
}

func stopped(l driver.SubQueue, pauses []driver.Pause, now time.Time) bool {
	return slices.ContainsFunc(pauses, func(p driver.Pause) bool { return p.Covers(l.Queue, l.Kind, now) })
}

// PerQueue sums up the kinds of each queue, by name.
func (f Facts) PerQueue() []Queue {
	by := map[string]*Queue{}
	for _, l := range f.Queues {
		q := by[l.Queue]
		if q == nil {
			q = &Queue{Queue: l.Queue, Paused: true}
			by[l.Queue] = q
		}
		q.Waiting, q.Running = q.Waiting+waits(l), q.Running+l.Depth[task.Running]
		if !l.Oldest.IsZero() && (q.Oldest.IsZero() || l.Oldest.Before(q.Oldest)) {
			q.Oldest = l.Oldest
		}
		q.Failed += l.Depth[task.Failed] + l.Depth[task.Crashed]
		if !stopped(l, f.Pauses, f.Now) {
			q.Paused = false
			if !l.Oldest.IsZero() && (q.Due.IsZero() || l.Oldest.Before(q.Due)) {
				q.Due = l.Oldest
			}
		}
	}
	for _, w := range f.Workers {
		for _, name := range w.Queues {
			if by[name] == nil {
				by[name] = &Queue{Queue: name}
			}
			by[name].Workers++
		}
	}
	all := make([]Queue, 0, len(by))
	for _, q := range by {
		all = append(all, *q)
	}
	slices.SortFunc(all, func(a, b Queue) int { return strings.Compare(a.Queue, b.Queue) })
	return all
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
