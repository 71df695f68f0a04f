package driver

import (
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/keys"
	"github.com/dibs-run/dibs/task"
)

// Stores record each operation as an event of their history, in the step that carries it out, with these kinds and
// words, so that all stores use the same.

// Event returns the kind and the words of the event for a, which was done to the tasks done.
func (a OpRequest) Event(done []task.ID) (kind, reason string) {
	words := []string{fmt.Sprintf("%s: %s", count(len(done), "task"), list(done))}
	if a.Operation == OpMove {
		words = append(words, "to queue "+a.Queue)
	}
	if p := a.Edit.Priority; p != nil {
		words = append(words, fmt.Sprintf("priority %d", *p))
	}
	if at := a.Edit.RunAt; at != nil {
		words = append(words, "run at "+at.UTC().Format(time.RFC3339))
	}
	return "task-" + string(a.Operation), signed(strings.Join(words, ", "), a.By, a.Why)
}

// Event returns the kind and the words of the event for p.
func (p Pause) Event() (kind, reason string) {
	words := p.What()
	if !p.Until.IsZero() {
		words += " until " + p.Until.UTC().Format(time.RFC3339)
	}
	return "queue-paused", signed(words, p.By, p.Why)
}

// What returns words for what p pauses.
func (p Pause) What() string {
	switch {
	case p.Queue == "" && p.Kind == "":
		return "everything"
	case p.Kind == "":
		return "queue " + p.Queue
	case p.Queue == "":
		return "kind " + p.Kind
	}
	return "kind " + p.Kind + " in queue " + p.Queue
}

// ResumeEvent returns the kind and the words of the event for the end of a pause.
func ResumeEvent(queue, kind, by string) (eventKind, reason string) {
	return "queue-resumed", signed(Pause{Queue: queue, Kind: kind}.What(), by, "")
}

// LimitEvent returns the kind and the words of the event for a changed limit, by an operator or by a declaration.
func LimitEvent(key string, from, to int, by string) (kind, reason string) {
	return "limit-changed", signed(fmt.Sprintf("%q from %d to %d", key, from, to), by, "")
}

// BackEvent returns the kind and the words of the event for removing an operator's setting of a limit.
func BackEvent(key string, from, to int, by string) (kind, reason string) {
	return "limit-changed", signed(fmt.Sprintf("%q from %d to %d, as its tasks declare,", key, from, to), by, "")
}

func signed(what, by, why string) string {
	if by != "" {
		what += " by " + keys.Text(by)
	}
	if why != "" {
		what += ": " + keys.Text(why)
	}
	return what
}

// list names some ids; an event has room for a few.
func list(ids []task.ID) string {
	const most = 20
	var b strings.Builder
	for i, id := range ids[:min(len(ids), most)] {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, int64(id))
	}
	if n := len(ids) - most; n > 0 {
		fmt.Fprintf(&b, " and %d more", n)
	}
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
