package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

const (
	// lookBack bounds how far back records are copied to a store that was unavailable for longer, or is new.
	lookBack = 7 * 24 * time.Hour
	// overlap is the time that the next pass looks at again: it covers what was being written during the last one.
	overlap = 30 * time.Second
	// beatEvery is how often a host reports that it is there.
	beatEvery = 30 * time.Second
	// page is how many rows are read and sent at a time.
	page = 1000
)

// A Mirror copies the records of a host's directory to a shared store. It never writes to the directory, and what
// runs there never waits for it.
type Mirror struct {
	// From is the host's directory and To the shared store.
	From, To *scheduler.Backend
	// Store identifies To among the stores that this host has been copied to: its installation id and namespace.
	Store  string
	Cursor Cursor

	name       Name     // of the directory in To
	host       tick.Job // our row in the registry of To
	registered bool
	known      bool // the store had, or was given, our row
	sent       bool // the heartbeat that was not answered is this process's
	beat       time.Time
}

// errForgotten is what a pass ends with that finds a host's row gone. Whoever opens the store again learns whether it
// is another installation, whose files in the directory have other names.
var errForgotten = errors.New("the shared store has forgotten this host; dibs opens it again, and copies all of the last week")

// Run copies until ctx ends, several times per TTL, and once more after that. One process of the host copies at a
// time; the others stand by. It returns true before that if the store is to be opened again, since it has lost its
// data.
func (m *Mirror) Run(ctx context.Context) (again bool) {
	var turn *lease.Lease
	log, failing := m.log(), false
	every := time.NewTicker(m.From.Keeper.Margin().TTL / 3)
	defer every.Stop()
	for done := false; !done && !again; {
		select {
		case <-every.C:
		case <-ctx.Done():
			done = true
		}
		if turn = m.turn(ctx, turn); turn == nil {
			continue
		}
		err := m.pass(ctx, done)
		switch {
		case err != nil && !failing:
			log.Warn("this host's own jobs are not copied to the shared store at the moment; dibs copies them later", "event", "mirror-delayed", "error", err)
		case err == nil && failing:
			log.Info("this host's own jobs are copied to the shared store again", "event", "mirror-resumed")
		}
		failing, again = err != nil, errors.Is(err, errForgotten) && !done
	}
	if turn != nil {
		_ = turn.Release(context.WithoutCancel(ctx)) // it lapses by itself
	}
	return again
}

// pass bounds a Pass; the next one tries again if the store does not answer. The last pass, at the end of a process,
// has little time: the process's end waits for it.
func (m *Mirror) pass(ctx context.Context, last bool) error {
	bound := time.Minute
	if last {
		ctx, bound = context.WithoutCancel(ctx), m.To.Keeper.Margin().RPCTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return m.Pass(ctx)
}

// Once copies once, unless another process of this host does.
func (m *Mirror) Once(ctx context.Context) error {
	turn := m.turn(ctx, nil)
	if turn == nil {
		return nil
	}
	defer turn.Release(context.WithoutCancel(ctx)) //nolint:errcheck // it lapses by itself
	return m.Pass(ctx)
}

// turn acquires the lease under which one process of the host copies, or keeps l if it is held still. Nil: another
// process copies now.
func (m *Mirror) turn(ctx context.Context, l *lease.Lease) *lease.Lease {
	if l != nil {
		select {
		case <-l.Lost():
			l.Drop()
		default:
			return l
		}
	}
	l, err := m.From.Keeper.Acquire(ctx, lease.Want{Key: lease.Key(m.Store).Mirror(), Holder: m.From.Self, Gone: m.From.Gone})
	if err != nil {
		return nil
	}
	return l
}

func (m *Mirror) log() *slog.Logger { return cmp.Or(m.From.Log, slog.Default()) }

// Pass copies what is new since the last pass. Everything may be sent again: an error, or a crash in the middle,
// costs nothing else.
func (m *Mirror) Pass(ctx context.Context) error {
	now, err := m.From.Keeper.Now(ctx)
	if err != nil {
		return fmt.Errorf("the host's directory: %w", err)
	}
	jobs, err := tick.Registry(ctx, m.From.Ticks, "")
	if err != nil {
		return fmt.Errorf("the jobs of the host's directory: %w", err)
	}
	if err := m.register(ctx, jobs, now); err != nil {
		return err
	}
	before, err := m.Cursor.Load()
	if err != nil {
		return err
	}
	c := &copying{Mirror: m, ctx: ctx, now: now, before: before, from: before.Until.Add(-overlap),
		after: Position{Until: now, Marks: map[string]time.Time{}}, again: map[ID]bool{}}
	if oldest := now.Add(-lookBack); c.from.Before(oldest) {
		c.from = oldest
	}
	for _, step := range []func() error{c.runs, func() error { return c.jobs(jobs) }, c.unfinished, c.events} {
		if err := step(); err != nil {
			return err
		}
	}
	slices.Sort(c.after.Runs)
	c.after.Runs = slices.Compact(c.after.Runs)
	return m.Cursor.Save(c.after)
}

// register tells the shared store about this host, its jobs, and when it was last there.
func (m *Mirror) register(ctx context.Context, jobs []tick.Job, now time.Time) error {
	definition, err := describe(m.From.Self, jobs, now)
	if err != nil {
		return err
	}
	at, err := m.To.Keeper.Now(ctx)
	if err != nil {
		return err
	}
	at = at.Add(-rand.N(time.Millisecond)).Truncate(time.Microsecond) // two copies seldom say the same
	// A heartbeat comes before a change: alone, it tells that the store has lost the row, which a change makes anew.
	due := func() bool {
		return at.Sub(m.beat) >= beatEvery || m.host.Definition != definition && m.beat.Before(at)
	}
	for steps := 0; !m.registered || due(); steps++ {
		switch {
		case steps > 8:
			return errors.New("others report to the shared store as this host all the time")
		case !m.registered:
			err = m.identify(ctx, definition, at)
		default:
			err = m.report(ctx, at)
		}
		if err != nil {
			return err
		}
	}
	if m.host.Definition != definition {
		return m.describe(ctx, definition)
	}
	return nil
}

// report sends the heartbeat at, or again one that was not answered: it may have arrived, or may still arrive. That of
// an earlier process is not sent again: if the directory was copied since, its copies would say the same. The
// directory remembers a heartbeat first. If somebody else has reported, we are not registered any more.
func (m *Mirror) report(ctx context.Context, at time.Time) error {
	if !at.After(m.host.Mark) { // the row is new, or the store's clock was set back
		at = m.host.Mark.Add(2*time.Microsecond + rand.N(time.Millisecond).Truncate(time.Microsecond)) // seldom what another one says
	}
	unanswered := m.name.From.Equal(m.host.Mark) && m.name.To.After(m.name.From)
	if !unanswered || !m.sent {
		was := time.Time{}
		if unanswered {
			was = m.name.To
		}
		m.name.From, m.name.To, m.name.Was = m.host.Mark, at, was
		if err := m.Cursor.SaveName(m.name); err != nil {
			return err
		}
		m.sent = true
	}
	m.registered = false
	a, err := m.To.Ticks.Settle(ctx, tick.SettleRequest{Job: m.host.Name, From: m.name.From, To: m.name.To})
	if err != nil {
		return fmt.Errorf("send this host's heartbeat: %w", err)
	}
	if a.Status == tick.Won {
		m.registered, m.host.Mark, m.beat = true, m.name.To, m.name.To
	}
	return nil
}

// describe writes what there is to say about this host.
func (m *Mirror) describe(ctx context.Context, definition string) error {
	return m.set(ctx, tick.JobRequest{Name: row(m.name.ID), Definition: definition, Since: m.host.Since})
}

func (m *Mirror) set(ctx context.Context, req tick.JobRequest) error {
	rows, err := m.To.Ticks.SetJobs(ctx, []tick.JobRequest{req})
	if err != nil {
		return fmt.Errorf("register this host: %w", err)
	}
	m.host = rows[0]
	return nil
}
