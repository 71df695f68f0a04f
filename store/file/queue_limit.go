//go:build linux

package file

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/store/internal/life"
)

// A limit is a key of which so many tasks may run. In each lane as many of those in line for it as there are free slots
// are available, the first ones in order; all others are blocked, and no fetch looks at them.
type limit struct {
	life.Cap
	id      int64
	key     string
	token   lease.Token // the largest that was given under it
	running int
}

func readLimit(row scanner) (*limit, error) {
	var l limit
	err := row.Scan(&l.id, &l.key, &l.Max, &l.Declared, &l.token, &l.running)
	return &l, err
}

func (b *board) limit(id int64) (*limit, error) {
	if l := b.limits[id]; l != nil {
		return l, nil
	}
	return b.known(readLimit(b.row("limit_get", id)))
}

// known keeps one copy of each limit for the step.
func (b *board) known(l *limit, err error) (*limit, error) {
	if err != nil {
		return nil, err
	}
	if had := b.limits[l.id]; had != nil {
		return had, nil
	}
	b.limits[l.id] = l
	return l, nil
}

// free is how many slots are.
func (l *limit) free() int { return max(l.Max-l.running, 0) }

// declare is the limit that a spec names, made where it is new. The last declaration wins.
func (b *board) declare(s *queue.Spec) (*limit, error) {
	h := s.Limit.Hash(s.Kind)
	l, err := b.known(readLimit(b.row("limit_declare", h[:], s.Limit.Key, s.Limit.Slots())))
	if err != nil {
		return nil, err
	}
	return l, b.hears(l, s.Limit.Slots())
}

// hears takes in what a task declares of a limit. It stops nothing that runs.
func (b *board) hears(l *limit, slots int) error {
	was := l.Cap
	if l.Hears(slots); l.Cap == was {
		return nil
	}
	if err := b.exec("limit_declared", l.Max, l.Declared, l.id); err != nil || l.Max == was.Max {
		return err
	}
	kind, reason := queue.LimitEvent(l.key, was.Max, l.Max, "")
	if err := b.record(kind, reason); err != nil {
		return err
	}
	return b.settle(l)
}

// spot is a task's place in an order.
type spot struct {
	id   queue.ID
	rank int
}

func readSpot(row scanner) (s spot, err error) { return s, row.Scan(&s.id, &s.rank) }

func inOrder(a, b spot) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.id, b.id)) }

// settle does what a changed number of free slots, or of those in line, asks for, in every lane (rule Q5).
func (b *board) settle(l *limit) error {
	lanes, err := rows(b, func(row scanner) (id int64, err error) { return id, row.Scan(&id) }, "line_lanes", l.id)
	if err != nil {
		return err
	}
	for _, lane := range lanes {
		if err := b.settleLane(l, lane); err != nil {
			return err
		}
	}
	return nil
}

// settleLane makes as many of those in line available as there are free slots: the first ones in order. It looks at no more
// rows than it changes, and two.
func (b *board) settleLane(l *limit, lane int64) error {
	var open int
	if err := b.scan("line_count", []any{l.id, lane}, &open); err != nil {
		return err
	}
	free := l.free()
	if open > free {
		return b.turn(queue.Blocked, l, lane, open-free)
	}
	if open < free {
		if err := b.turn(queue.Available, l, lane, free-open); err != nil {
			return err
		}
	}
	for { // one that came later may stand before those that were chosen
		last, err := rows(b, readSpot, "line_last", l.id, lane, 1)
		if err != nil || len(last) == 0 {
			return err
		}
		next, err := rows(b, readSpot, "line_next", l.id, lane, 1)
		if err != nil || len(next) == 0 || inOrder(last[0], next[0]) < 0 {
			return err
		}
		if err := b.turn(queue.Blocked, l, lane, 1); err != nil {
			return err
		}
		if err := b.turn(queue.Available, l, lane, 1); err != nil {
			return err
		}
	}
}

// turn makes n of those in line available, the first blocked ones; or blocked, the last available ones.
func (b *board) turn(to queue.State, l *limit, lane int64, n int) error {
	which := "line_next"
	if to == queue.Blocked {
		which = "line_last"
	}
	found, err := rows(b, readSpot, which, l.id, lane, n)
	for _, s := range found {
		if err := b.exec("set_state", life.Number(to), int64(s.id)); err != nil {
			return err
		}
	}
	return err
}

// displace asks for a slot: running rivals are to stop, and older ones that wait have been superseded.
func (b *board) displace(t *task) error {
	running, err := rows(b, func(row scanner) (id queue.ID, err error) {
		var kind string
		var started, worker int64
		return id, row.Scan(&id, &kind, &started, &worker)
	}, "slots", t.limit)
	if err != nil {
		return err
	}
	for _, id := range running {
		other, err := b.get(id)
		if err != nil {
			return err
		}
		if other.Rival() && other.Stop == "" {
			other.Stop = queue.ReasonReplaced
			if err := b.save(other); err != nil {
				return err
			}
		}
	}
	older, err := rows(b, readID, "rivals", t.limit, int64(t.ID))
	if err != nil {
		return err
	}
	for _, id := range older {
		other, err := b.get(id)
		if err != nil {
			return err
		}
		if other.Rival() && other.State.Waiting() {
			if err := b.discard(other, queue.ReasonSuperseded); err != nil {
				return err
			}
		}
	}
	t.Displaced = true
	return b.move(t, t.State)
}

// SetLimit fulfils queue.Admin.
func (d desk) setLimit(b *board, key queue.Hash, slots int, by string) (bool, error) {
	l, err := b.known(readLimit(b.row("limit_find", key[:])))
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	was := l.Max
	if !l.Says(slots, by, b.now) {
		return true, nil
	}
	kind, reason := life.SaidEvent(l.key, was, &l.Cap, by)
	if err := b.record(kind, reason); err != nil {
		return false, err
	}
	if err := b.exec("limit_said", l.Max, l.Declared, l.By, micros(l.Since), l.id); err != nil {
		return false, err
	}
	return true, b.settle(l)
}

// Limits fulfils queue.Admin.
func (d desk) Limits(ctx context.Context) (words []queue.Word, err error) {
	err = d.look(ctx, func(b *board) (err error) {
		words, err = rows(b, func(row scanner) (w queue.Word, err error) {
			var hash []byte
			var since int64
			err = row.Scan(&hash, &w.Key, &w.Max, &w.Declared, &w.By, &since)
			copy(w.Hash[:], hash)
			w.Since = instantOf(since)
			return w, err
		}, "limits_said")
		return err
	})
	return words, err
}
