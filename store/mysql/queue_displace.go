package mysql

import "github.com/dibs-run/dibs/queue"

// rival says that a newer task of its limit may supersede t.
func (t *task) rival() bool { return t.limit != nil && t.Limit.OnContention == queue.Displace }

// displace asks for a slot: running rivals are to stop, and older ones that wait have been superseded.
func (b *board) displace(t *task) error {
	running, err := b.find("tasks-slots", b.q.ns, t.limit[:])
	if err != nil {
		return err
	}
	for _, other := range running {
		if other.State == queue.Running && other.rival() && other.Stop == "" && !b.locked[other.ID] {
			other.Stop = queue.ReasonReplaced
			b.save(other)
		}
	}
	older, err := b.find("tasks-rivals", b.q.ns, t.limit[:], int64(t.ID))
	if err != nil {
		return err
	}
	for _, other := range older {
		if other.rival() && other.State.Waiting() && !b.locked[other.ID] {
			if err := b.discard(other, queue.ReasonSuperseded); err != nil {
				return err
			}
		}
	}
	t.displaced = true
	return b.move(t, t.State)
}
