//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store/internal/life"
)

// Act fulfils queue.Admin.
func (d desk) Act(ctx context.Context, act queue.Action) (answers []queue.Acted, err error) {
	err = d.db.step(ctx, func(b *board) error {
		answers = make([]queue.Acted, 0, len(act.IDs))
		var done []queue.ID
		for _, id := range act.IDs {
			a, err := b.actOn(id, act)
			if err != nil {
				return err
			}
			if a.Answer == queue.Done || a.Answer == queue.Asking {
				done = append(done, id)
			}
			answers = append(answers, a)
		}
		if len(done) == 0 {
			return nil
		}
		return b.record(act.Event(done))
	})
	return answers, err
}

func (b *board) actOn(id queue.ID, act queue.Action) (a queue.Acted, err error) {
	a = queue.Acted{ID: id, Answer: queue.NotThere}
	t, err := b.get(id)
	if err != nil || t == nil {
		return a, err
	}
	if a.Answer, a.Other, err = b.act(t, act); err != nil {
		return a, err
	}
	if act.Act != queue.ActDelete || a.Answer != queue.Done {
		a.State = t.State
	}
	return a, nil
}

// act does one thing to one task.
func (b *board) act(t *taskRow, act queue.Action) (answer queue.ActAnswer, other queue.ID, err error) {
	if answer = t.Refuses(&act); answer != "" {
		return answer, 0, nil
	}
	switch act.Act {
	case queue.ActDelete:
		return queue.Done, 0, b.remove(t)
	case queue.ActMove:
		if t.lane, err = b.lane(place{act.Queue, t.Kind}); err != nil {
			return "", 0, err
		}
	case queue.ActRetry:
		if !t.Reclaims() {
			break
		}
		there, err := b.holder(t.Unique.Hash(t.Kind))
		if err != nil {
			return "", 0, err
		}
		if there != nil && there.ID != t.ID {
			return queue.Taken, there.ID, nil
		}
	}
	err = b.change(t, func() (n life.Note) {
		answer, n = t.Act(act, b.now)
		return n
	})
	return answer, 0, err
}
