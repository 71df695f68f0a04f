package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// meta is a namespace's identity record (rule L9).
type meta struct {
	installation string
	maxTTL       time.Duration
	holdUntil    time.Time
	epoch        lease.Epoch
	now          time.Time
}

func (m *meta) read(r *sql.Rows) error {
	var ttl, until int64
	err := r.Scan(&m.installation, &ttl, &until, &m.epoch)
	m.maxTTL, m.holdUntil = span(ttl), instant(until)
	return err
}

// prepare makes the namespace if it is new, and has grants held back if this is another server
// than the one that the namespace knows.
func (d *database) prepare(ctx context.Context, c store.Config) (m meta, did []string, err error) {
	var before meta
	look := new(packet).add("clock").add("now").add("read-meta", d.ns)
	if err = d.run(ctx, look, readInstant(&before.now), before.read); err != nil {
		return m, nil, err
	}
	if c.Read && before.installation == "" {
		return m, nil, c.NotPrepared()
	}
	if err := d.expected(c, before); err != nil {
		return m, nil, err
	}
	if c.Read {
		return before, nil, errors.Join(d.sound(before), c.CheckTTL(before.maxTTL))
	}
	ours := lease.NewNonce().String()
	p := d.known(ours, c.Init, 0, c.SeenTTL.Microseconds())
	if c.Init {
		p.add("raise-max-ttl", c.TTL.Microseconds(), d.ns)
	}
	p.add("now").add("read-meta", d.ns).add("commit")
	if err = d.run(ctx, p, readInstant(&m.now), m.read); err != nil {
		return m, nil, err
	}
	if err := d.sound(m); err != nil {
		return m, nil, err
	}
	return m, changes(string(d.ns), ours, before, m), c.CheckTTL(m.maxTTL)
}

// expected refuses another installation than the address asks for.
func (d *database) expected(c store.Config, m meta) error {
	if c.Expect == "" || c.Expect == m.installation {
		return nil
	}
	is := "is empty"
	if m.installation != "" {
		is = "has the installation id " + m.installation
	}
	return fmt.Errorf("mysql store %s: namespace %s %s, and expect_store asks for %s; correct the address or the pin",
		d.addr, d.ns, is, c.Expect)
}

// sound refuses an installation id that dibs never made.
func (d *database) sound(m meta) error {
	if err := store.CheckInstallation(m.installation); err != nil {
		return fmt.Errorf("mysql store %s: %w", d.addr, err)
	}
	return nil
}

// known begins a packet after which the namespace knows this server. If there is no such namespace it is made,
// with id as its installation id. seen is the highest epoch that somebody has seen, ttl the longest TTL, in µs.
func (d *database) known(id string, isNew bool, seen lease.Epoch, ttl int64) *packet {
	p := new(packet).add("clock").add("this-server", with(d.identity))
	p.add("create-meta", d.ns, []byte(id), flag(isNew), d.maxTTL.Load())
	p.add("begin").add("lock-meta", d.ns).add("clock")
	return p.add("hold-back", ttl, int64(seen), int64(seen), ttl, d.ns, int64(seen), ttl)
}

func changes(ns, ours string, before, m meta) (did []string) {
	switch {
	case m.installation == ours:
		did = append(did, "created namespace "+ns)
	case before.installation != "" && m.maxTTL > before.maxTTL:
		did = append(did, fmt.Sprintf("raised max_ttl of namespace %s to %s", ns, m.maxTTL))
	}
	if !m.holdUntil.Equal(before.holdUntil) {
		did = append(did, fmt.Sprintf("holding back all grants in namespace %s for %s, because leases unknown to this server may be live",
			ns, m.maxTTL))
	}
	return did
}

// holdBack is what Acquire does when the namespace does not know the server that it found, is in an older state than
// somebody has seen, or has a shorter max_ttl.
func (d *database) holdBack(ctx context.Context, a *allowance, seen lease.Epoch) error {
	var m meta
	p := d.known(lease.NewNonce().String(), false, seen, d.maxTTL.Load()).add("now").add("read-meta", d.ns).add("commit")
	err := d.run(ctx, p, readInstant(&m.now), m.read)
	a.now, a.maxTTL, a.until, a.epoch = m.now, m.maxTTL, m.holdUntil, m.epoch
	return err
}
