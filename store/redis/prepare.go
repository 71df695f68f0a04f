package redis

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// meta is what the namespace's meta record says, and what opening it changed.
type meta struct {
	InstallationID string
	MaxTTL         time.Duration
	HoldUntil      time.Time // zero when grants go on
	schema         int
	prepared       []string
}

// prepare makes the namespace if it is missing, compares the server with the one that the namespace knows (rule L9),
// and refuses a layout that this program must not touch: all of it in one atomic script. With c.Init it upgrades an
// older layout first.
func (d *db) prepare(ctx context.Context, c store.Config) (meta, error) {
	script, a := prepareScript, append(d.newArgs(5), freshID(), d.layout, d.maxTTL.Load(), flag(c.Init), c.SeenTTL.Microseconds())
	if c.Read {
		script, a = lookScript, d.newArgs(0)
	}
	r, err := d.run(ctx, "open", script, a)
	if err != nil {
		return meta{}, err
	}
	now, id, have := r.time(0), r.text(1), store.Layout{Version: int(r.int(2)), Oldest: int(r.int(8))}
	if have.Version == 0 { // only a look finds none
		return meta{}, c.NotPrepared()
	}
	if err := have.Use(len(d.versions)); err != nil {
		return meta{}, fmt.Errorf("redis %s: namespace %q: %w", d.addr, c.Namespace, err)
	}
	if c.Expect != "" && c.Expect != id {
		return meta{}, fmt.Errorf("redis %s: this is installation %s, expected is %s; correct the address, or expect_store if the store was meant to change", d.addr, id, c.Expect)
	}
	if have.Version < len(d.versions) {
		if c.Read || !c.Init {
			return meta{}, fmt.Errorf("redis %s: namespace %q: %w", d.addr, c.Namespace, c.Outdated(have.Version, len(d.versions)))
		}
		return d.upgrade(ctx, c, have.Version)
	}
	if err := store.CheckInstallation(id); err != nil {
		return meta{}, fmt.Errorf("redis %s: %w", d.addr, err)
	}
	m := meta{InstallationID: id, MaxTTL: duration(r.int(3)), schema: have.Version}
	if until := r.time(4); until.After(now) {
		m.HoldUntil = until
	}
	if err := c.CheckTTL(m.MaxTTL); err != nil {
		return meta{}, err
	}
	created, raised, changed := r.int(5) == 1, r.int(6) == 1, r.int(7) == 1
	if created {
		m.say("created namespace %q, installation %s, longest ttl %s", c.Namespace, id, m.MaxTTL)
	}
	if raised {
		m.say("raised the longest ttl to %s", m.MaxTTL)
	}
	if changed {
		m.say("the server was restarted or replaced since it was last used")
	}
	if (created || raised || changed) && !m.HoldUntil.IsZero() {
		m.say("grants are held back until %s, when every unknown lease has expired", m.HoldUntil.Format(time.RFC3339))
	}
	return m, nil
}

// upgrade brings the namespace to the newest version of the layout, one version after the other. It may be repeated,
// and two processes may do it at once: each step is atomic and does what is left.
func (d *db) upgrade(ctx context.Context, c store.Config, have int) (meta, error) {
	from := have
	for ; have < len(d.versions); have++ {
		v := d.versions[have]
		for more := v.upgrade != nil; more; {
			r, err := d.run(ctx, "upgrade", v.upgrade, d.newArgs(0))
			if err != nil {
				return meta{}, err
			}
			more = r.int(1) == 1
		}
		if _, err := d.run(ctx, "upgrade", upgradedScript, append(d.newArgs(2), have+1, v.oldest)); err != nil {
			return meta{}, err
		}
	}
	m, err := d.prepare(ctx, c)
	if err == nil {
		m.say("upgraded namespace %q from version %d to %d", c.Namespace, from, have)
	}
	return m, err
}

func (m *meta) say(format string, a ...any) {
	m.prepared = append(m.prepared, fmt.Sprintf(format, a...))
}

// freshID is the installation id of a namespace that is made.
func freshID() string { return lease.NewNonce().String() }

// properties declares what the store promises, and what it does not, as far as the server tells.
func (d *db) properties(ctx context.Context, m meta) store.Properties {
	p := store.Properties{
		Reach:          store.Fleet,
		InstallationID: m.InstallationID,
		MaxTTL:         m.MaxTTL,
		HoldUntil:      m.HoldUntil,
		Schema:         m.schema,
		Weaker: []string{
			"Replication is asynchronous: a failover can forget acknowledged writes. Leases are protected by the hold-back that follows; the latest claims, history and tasks are not.",
			"If the server's clock jumps forward, a live lease can expire; if it jumps back, a dead one lasts longer.",
		},
	}
	flaw := func(breaks bool, cure, what string, a ...any) {
		p.Flaw(store.Flaw{Breaks: breaks, What: fmt.Sprintf(what, a...), Cure: cure})
	}
	const noEviction, appendOnly = "Set maxmemory-policy to noeviction.", "Set appendonly to yes."
	switch policy := d.setting(ctx, "maxmemory-policy"); {
	case policy == "":
		flaw(false, "Allow CONFIG GET, or make sure that maxmemory-policy is noeviction.", "It is unknown whether the server evicts keys, because it refuses CONFIG GET.")
	case strings.HasPrefix(policy, "allkeys"):
		flaw(true, noEviction, "The server may evict leases, claims, history and tasks (maxmemory-policy %s): a queue can lose tasks, or admit a duplicate.", policy)
	case policy != "noeviction":
		flaw(true, noEviction, "The server evicts keys that expire (maxmemory-policy %s). dibs has none, but shares the memory with them.", policy)
	}
	switch aof, fsync := d.setting(ctx, "appendonly"), d.setting(ctx, "appendfsync"); {
	case aof == "":
		flaw(false, "Allow CONFIG GET, or make sure that appendonly is yes.", "It is unknown whether writes survive a restart, because the server refuses CONFIG GET.")
	case aof != "yes":
		flaw(false, appendOnly, "The queue is not durable, and writes do not survive a restart (appendonly no): tasks, claims and history are lost then.")
	case fsync != "always":
		p.Weaker = append(p.Weaker, fmt.Sprintf("A power loss loses the last second or two of writes, enqueued tasks included; while the disk is slow, so does a kill (appendfsync %s).", fsync))
	default:
		p.Durable = true
	}
	return p
}

// setting asks for one of the server's settings; "" if that is forbidden or unknown.
func (d *db) setting(ctx context.Context, name string) string {
	v, err := d.client.ConfigGet(ctx, name).Result()
	if err != nil {
		return ""
	}
	return v[name]
}
