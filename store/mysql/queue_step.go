package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

const (
	// lockWait is how long a step waits for a task that another transaction has (rule Q2).
	lockWait = 2 * time.Second
	// stale is how long what was decided may take to be carried out.
	stale = 3 * time.Second
	// tenacity is how long a step is tried again while others change what it was decided on.
	tenacity = 20 * time.Second
)

// How much one step does, and one packet has, whatever there is to do. What is left is for the next.
const (
	// mostSpecs and mostArgs bound what is taken in with one step, mostBytes what of it is sent with one
	// packet, which the server must be ready to receive.
	mostSpecs = 2000
	mostArgs  = 16 << 20
	mostBytes = 1 << 20
	// mostGiven is how many tasks one pass of a fetch gives: a packet is not to take longer than a worker waits for
	// it. A sub-queue has no more nominees than that for a limit, however many slots are free: each nominee that is
	// given gets a successor.
	mostGiven = 250
	// mostEnded is how many tasks a pass discards, as expired or superseded.
	mostEnded = 400
	// mostDue is how many tasks a fetch makes available whose instant has come, chunk how many of them have a
	// limit, and how many tasks one step takes that nobody is waiting for.
	mostDue = 1000
	chunk   = 200
	// mostOpen is how many of those that are available under its limits a step reads, and mostFlips about how many it
	// makes available or blocked beside those that it is about. What it leaves, the next one does: it leaves a wake.
	mostOpen  = 2000
	mostFlips = 500
	// mostKeys is how many limits a step of ends locks, and mostActs how many tasks one operation of an operator
	// changes.
	mostKeys = 250
	mostActs = 250
	// mostOver is how many blocked ones a step looks at, at most, behind those that have expired.
	mostOver = 1000
	// mostPassed is behind how many tasks that other transactions have a call looks for those that it can have.
	mostPassed = 1000
	// looked is how many tasks a statement of a list or a count walks over.
	looked = 10_000
)

var (
	// errChanged says that a step was not carried out: what it was decided on has changed.
	errChanged = errors.New("other processes keep changing the same tasks")
	// errLimits says that a step has to do with limits that it had not locked when it began to decide.
	errLimits = errors.New("the step needs more limits")
)

// step decides and carries out one atomic step on the queues. If the rows that it was decided on have changed, it is
// decided again, for tenacity at most.
func (q queues) step(ctx context.Context, do func(b *txn) error) error {
	if err := alone(ctx); err != nil {
		return err
	}
	locked, want := map[task.ID]bool{}, map[task.Hash]bool{}
	begin := time.Now()
	for n := 1; ; n++ {
		b := &txn{q: q, locked: locked, want: want, patient: time.Since(begin) < lockWait}
		b.ctx = context.WithValue(ctx, inStep{}, b)
		b.reset()
		known := len(locked)
		err := b.attempt(do)
		code := number(err)
		var aside *asideError
		switch {
		case errors.As(err, &aside):
			if err := q.setAside(ctx, aside); err != nil {
				return err
			}
		case errors.Is(err, errLimits):
			if err := q.ensure(ctx, b.missing); err != nil && number(err) != 1213 { // others make some of the same
				return err
			}
		case !errors.Is(err, errChanged) && code != 1213 && code != 1205 && code != 1467 && code != 1062: // deadlock, lock waits, key taken meanwhile
			return err
		}
		if time.Since(begin) > tenacity {
			return fmt.Errorf("%w: %w", lease.ErrUnavailable, err)
		}
		locked = b.locked
		if aside != nil || errors.Is(err, errLimits) || len(locked) > known { // it gets on: more is known of what others have
			continue
		}
		if err := pause(ctx, n, len(locked) > 0); err != nil {
			return err
		}
	}
}

// attempt is one try at a step.
func (b *txn) attempt(do func(b *txn) error) (err error) {
	if len(b.want) > 0 {
		err = b.lock(nil, false, nothing)
	}
	if err == nil {
		err = do(b)
	}
	if err == nil {
		err = b.carryOut()
	}
	b.giveUp()
	return err
}

// pause lets other steps go first, for about as long as a packet takes, or a little longer if another transaction
// holds a task.
func pause(ctx context.Context, n int, longer bool) error {
	d := rand.N(time.Duration(min(n, 8)) * time.Millisecond)
	if longer {
		d += 5 * time.Millisecond
	}
	return rest(ctx, d)
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", lease.ErrUnavailable, ctx.Err())
	}
}

// reading begins a packet that only reads. All packets of a step read at the same instant, its own.
func (b *txn) reading() (*packet, []reader) {
	if b.now.IsZero() {
		return new(packet).add("clock").add("now"), []reader{readInstant(&b.now)}
	}
	return new(packet).add("at", micros(b.now)), nil
}

// ask reads with one statement, or several.
func (b *txn) ask(add func(*packet) []reader) error {
	p, readers := b.reading()
	readers = append(readers, add(p)...)
	return b.send(p, readers)
}

func (b *txn) send(p *packet, readers []reader) error {
	switch {
	case b.tx != nil:
		return b.tx.send(b.ctx, p, readers)
	case b.conn != nil:
		_, err := consume(b.ctx, b.conn, p, readers)
		if err != nil {
			b.cutOff()
		}
		return b.q.explain(err)
	}
	return b.q.run(b.ctx, p, readers...)
}

// begin begins the transaction in which the step goes on. Its first packet locks.
func (b *txn) begin() (*packet, error) {
	if err := b.q.room.enter(b.ctx); err != nil {
		return nil, err
	}
	conn, err := b.q.db.Conn(b.ctx)
	if err != nil {
		b.q.room.leave()
		return nil, b.q.explain(err)
	}
	b.conn = conn
	return new(packet).add("fresh").add("begin").add("hold"), nil
}

// giveUp ends the step's transaction without a change, if it has one. If the server does not answer, it does so by
// itself.
func (b *txn) giveUp() {
	if b.conn != nil {
		_ = b.send(new(packet).add("give-up"), nil)
		b.handBack()
	}
}

// handBack returns the connection of a transaction that has ended.
func (b *txn) handBack() {
	if b.conn != nil {
		_ = b.conn.Close()
		b.conn = nil
		b.q.room.leave()
	}
}

// cutOff closes the connection, which makes the server roll back.
func (b *txn) cutOff() {
	_ = b.conn.Raw(func(any) error { return driver.ErrBadConn })
	b.handBack()
}
