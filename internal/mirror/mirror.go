package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

	host       tick.Job // our row in the registry of To
	registered bool
	beat       time.Time
}

// Run copies until ctx ends, several times per TTL, and once more after that. One process of the host copies at a
// time; the others stand by.
func (m *Mirror) Run(ctx context.Context) {
	var turn *lease.Lease
	log, failing := m.log(), false
	every := time.NewTicker(m.From.Keeper.Margin().TTL / 3)
	defer every.Stop()
	for done := false; !done; {
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
		failing = err != nil
	}
	if turn != nil {
		_ = turn.Release(context.WithoutCancel(ctx)) // it lapses by itself
	}
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
	id := short(m.From.Self.HostID)
	if id == "" {
		return errors.New("the host's directory has no id")
	}
	definition, err := describe(m.From.Self.Host, jobs, now)
	if err != nil {
		return err
	}
	if !m.registered {
		if err := m.recall(ctx, row(id)); err != nil {
			return err
		}
	}
	if !m.registered || m.host.Definition != definition {
		// A zero Since, of a new host, is the store's now.
		rows, err := m.To.Ticks.SetJobs(ctx, []tick.JobRequest{{Name: row(id), Definition: definition, Since: m.host.Since}})
		if err != nil {
			return fmt.Errorf("register this host: %w", err)
		}
		m.host, m.registered = rows[0], true
	}
	at, err := m.To.Keeper.Now(ctx)
	if err != nil {
		return err
	}
	if at.Sub(m.beat) < beatEvery {
		return nil
	}
	a, err := m.To.Ticks.Settle(ctx, tick.SettleRequest{Job: m.host.Name, From: m.host.Mark, To: at})
	if err != nil {
		return fmt.Errorf("send this host's heartbeat: %w", err)
	}
	if m.registered = a.Status == tick.Won; m.registered { // else another process of this host has said so
		m.host.Mark, m.beat = at.Truncate(time.Microsecond), at
	}
	return nil
}

// recall reads what the store knows about this host. If that is nothing, it has lost what was copied before: all of it
// is copied again. A turn prepares a store that has lost everything (rule L9), since this host may be the only one
// that uses it.
func (m *Mirror) recall(ctx context.Context, name string) error {
	rows, err := m.To.Ticks.Jobs(ctx, tick.JobQuery{Names: []string{name}})
	if err != nil {
		return fmt.Errorf("look for this host in the shared store: %w", err)
	}
	m.host = tick.Job{}
	if len(rows) > 0 {
		m.host = rows[0]
		return nil
	}
	if _, err := m.To.Keeper.Turn(ctx, lease.Want{Key: lease.Key(name).Mirror(), Holder: m.To.Self}, m.To.Keeper.Margin().TTL); err != nil {
		return fmt.Errorf("prepare the shared store: %w", err)
	}
	return m.Cursor.Save(Position{})
}
