package mysql

import (
	"github.com/dibs-run/dibs/task"
)

// displace asks for a slot: running tasks that displace are to stop, and older waiting ones are superseded. If
// another transaction has one of them, which may be rolled back, or if there are more such tasks than a step may end,
// t asks again when it is met again.
func (b *txn) displace(t *taskRow) (more bool, err error) {
	running, err := b.find("tasks-slots", b.q.ns, t.limit[:])
	if err != nil {
		return false, err
	}
	for _, other := range b.members(*t.limit) { // what this very step gave is not there yet
		running = append(running, other)
	}
	asked := true
	for _, other := range running {
		switch {
		case other.State != task.Running || !other.Displaces() || other.Stop != "":
		case b.locked[other.ID]:
			asked = false
		default:
			other.Stop = task.ReasonReplaced
			b.save(other)
		}
	}
	older, err := b.find("tasks-displacing", b.q.ns, t.limit[:], int64(t.ID), mostEnded)
	if err != nil {
		return false, err
	}
	ended := 0
	for _, other := range older {
		switch {
		case !other.Displaces() || !other.State.Waiting():
		case b.locked[other.ID]:
			asked = false
		default:
			if err := b.discard(other, task.ReasonSuperseded); err != nil {
				return false, err
			}
			ended++
		}
	}
	if more = len(older) == mostEnded && ended > 0; more || !asked {
		return more, nil
	}
	t.Displaced = true
	return false, b.move(t, t.State)
}
