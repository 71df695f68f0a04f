package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// A Name is what a directory is called in a shared store, and its last heartbeat there: To or, if that did not arrive,
// From or Was, which an earlier process sent and had no answer to. A heartbeat that the directory does not remember is
// another one's: a copy of the directory has the same id.
type Name struct {
	ID   string    `json:"id"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Was  time.Time `json:"was,omitzero"`
}

// identify finds the row of this host, or makes it. Whoever finds heartbeats under its id that its directory does not
// remember takes a new id: this directory is a copy, or an older state that was restored (rule H1).
func (m *Mirror) identify(ctx context.Context, definition string, at time.Time) (err error) {
	if m.name, err = m.Cursor.LoadName(); err != nil {
		return err
	}
	if m.name.ID == "" {
		m.name.ID = short(m.From.Self.HostID)
	}
	if m.name.ID == "" {
		return errors.New("the host's directory has no id")
	}
	if err := m.recall(ctx); err != nil {
		return err
	}
	if m.host.Name != "" && !m.ours(at) {
		m.rename()
	}
	if m.host.Name == "" {
		if err := m.create(ctx, definition, at); err != nil {
			return err
		}
		if !m.host.Mark.Equal(m.name.To) { // a copy of the directory was quicker
			m.rename()
		}
	}
	if m.host.Name == "" { // under the new id nobody is
		if err := m.create(ctx, definition, at); err != nil {
			return err
		}
	}
	m.registered, m.known, m.beat = true, true, time.Time{}
	return nil
}

// rename takes a new id.
func (m *Mirror) rename() {
	was := m.name.ID
	m.name, m.host = Name{ID: short(lease.NewNonce().String())}, tick.Job{}
	m.log().Warn("this host's directory is a copy of another host's, or was restored: another host reports to the shared store under its id, so it takes a new one there",
		"event", "host-cloned", "was", was, "id", m.name.ID)
}

// create makes the row of this host, unless there is one.
func (m *Mirror) create(ctx context.Context, definition string, at time.Time) error {
	first := at.Add(time.Microsecond)
	m.name.From, m.name.To, m.name.Was = first, first, time.Time{}
	if err := m.Cursor.SaveName(m.name); err != nil {
		return err
	}
	return m.set(ctx, tick.JobRequest{Name: row(m.name.ID), Definition: definition, Since: at, Mark: first})
}

// ours reports whether nobody has reported under our id since our directory did. One that remembers nothing has never
// reported, or has lost its file: then the row must be of this host, as long as it runs, and nobody may be reporting
// now: containers of one image and one kernel differ in nothing else.
func (m *Mirror) ours(at time.Time) bool {
	if m.name.To.IsZero() {
		var a about
		err := json.Unmarshal([]byte(m.host.Definition), &a)
		return err == nil && a.Host == m.From.Self.Host && a.Boot == m.From.Self.BootID && at.Sub(m.host.Mark) > 2*beatEvery
	}
	return !m.host.Mark.After(m.name.From) || m.host.Mark.Equal(m.name.To) || m.host.Mark.Equal(m.name.Was)
}

// recall reads what the store knows about this host. If that is nothing, it has lost what was copied before: it is to
// be opened again, and all is copied again. A turn prepares a store that has lost everything (rule L9), since this
// host may be the only one that uses it.
func (m *Mirror) recall(ctx context.Context) error {
	name := row(m.name.ID)
	rows, err := m.To.Ticks.Jobs(ctx, tick.JobQuery{Names: []string{name}})
	if err != nil {
		return fmt.Errorf("look for this host in the shared store: %w", err)
	}
	m.host = tick.Job{}
	if len(rows) > 0 {
		m.host = rows[0]
		return nil
	}
	if m.known {
		m.known, m.registered = false, false
		return errForgotten
	}
	if _, err := m.To.Keeper.Turn(ctx, lease.Want{Key: lease.Key(name).Mirror(), Holder: m.To.Self}, m.To.Keeper.Margin().TTL); err != nil {
		return fmt.Errorf("prepare the shared store: %w", err)
	}
	return m.Cursor.Save(Position{})
}
