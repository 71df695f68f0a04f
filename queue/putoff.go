package queue

import (
	"time"

	"github.com/dibs-run/dibs/queue/driver"
)

// offFor is how long an end waits after another transaction's hold on its task has put it off.
const offFor = 250 * time.Millisecond

// putOff sends withheld ends separately and later, so that the ends of other tasks do not wait with them. It returns
// the others.
func (s *session) putOff(batch []end, st []driver.Status) ([]end, []driver.Status) {
	var later, now []end
	var answers []driver.Status
	for i := range batch {
		if i < len(st) && st[i] == driver.Withheld {
			later = append(later, batch[i])
			continue
		}
		now, answers = append(now, batch[i]), append(answers, st[i])
	}
	if len(later) == 0 {
		return batch, st
	}
	s.late.Go(func() {
		s.rest(offFor)
		s.send(later)
	})
	return now, answers
}
