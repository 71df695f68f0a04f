package mysql

import "github.com/dibs-run/dibs/queue"

// displace asks for a slot: running rivals are to stop, and older ones that wait have been superseded. As long as
// another transaction has one of them, t has not asked everybody, and asks again when it is met again: the transaction
// may be rolled back.
func (b *board) displace(t *task) error {
	running, err := b.find("tasks-slots", b.q.ns, t.limit[:])
	if err != nil {
		return err
	}
	asked := true
	for _, other := range running {
		switch {
		case other.State != queue.Running || !other.Rival() || other.Stop != "":
		case b.locked[other.ID]:
			asked = false
		default:
			other.Stop = queue.ReasonReplaced
			b.save(other)
		}
	}
	older, err := b.find("tasks-rivals", b.q.ns, t.limit[:], int64(t.ID))
	if err != nil {
		return err
	}
	for _, other := range older {
		switch {
		case !other.Rival() || !other.State.Waiting():
		case b.locked[other.ID]:
			asked = false
		default:
			if err := b.discard(other, queue.ReasonSuperseded); err != nil {
				return err
			}
		}
	}
	if !asked {
		return nil
	}
	t.Displaced = true
	return b.move(t, t.State)
}
