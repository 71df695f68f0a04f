//go:build linux

package file

import (
	"context"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/life"
	"github.com/dibs-run/dibs/task"
)

// Act fulfils driver.Admin.
func (d desk) Act(ctx context.Context, act driver.Action) (answers []driver.Acted, err error) {
	err = d.db.step(ctx, func(b *board) error {
		answers = make([]driver.Acted, 0, len(act.IDs))
		var done []task.ID
		for _, id := range act.IDs {
			a, err := b.actOn(id, act)
			if err != nil {
				return err
			}
			if a.Answer == driver.Done || a.Answer == driver.Asking {
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

func (b *board) actOn(id task.ID, act driver.Action) (a driver.Acted, err error) {
	a = driver.Acted{ID: id, Answer: driver.NotThere}
	t, err := b.get(id)
	if err != nil || t == nil {
		return a, err
	}
	if a.Answer, a.Other, err = b.act(t, act); err != nil {
		return a, err
	}
	if act.Act != driver.ActDelete || a.Answer != driver.Done {
		a.State = t.State
	}
	return a, nil
}

// act does one thing to one task.
func (b *board) act(t *taskRow, act driver.Action) (answer driver.ActAnswer, other task.ID, err error) {
	if answer = t.Refuses(&act); answer != "" {
		return answer, 0, nil
	}
	switch act.Act {
	case driver.ActDelete:
		return driver.Done, 0, b.remove(t)
	case driver.ActMove:
		if t.lane, err = b.lane(place{act.Queue, t.Kind}); err != nil {
			return "", 0, err
		}
	case driver.ActRetry:
		if !t.Reclaims() {
			break
		}
		there, err := b.holder(t.Unique.Hash(t.Kind))
		if err != nil {
			return "", 0, err
		}
		if there != nil && there.ID != t.ID {
			return driver.Taken, there.ID, nil
		}
	}
	err = b.change(t, func() (n life.Note) {
		answer, n = t.Act(act, b.now)
		return n
	})
	return answer, 0, err
}
