package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dibs-run/dibs/store"
)

// defaultConns is how many connections a store opens at most, unless its address says otherwise (pool_max_conns). It
// is as many as a process has requests under way, so that none waits for a connection: four of a heartbeat, one of
// each kind that travels in batches, and the few of a sweep. Most of the time one or two are open.
const defaultConns = 16

// poolConfig completes what the address says about our own connections.
func poolConfig(c store.Config, b *behind) (*pgxpool.Config, error) {
	renewed := certificatesOf(c)
	cfg, err := parse(c)
	if err != nil {
		return nil, err
	}
	if c.URL.Query().Get("pool_max_conns") == "" {
		cfg.MaxConns = defaultConns
	}
	if c.URL.Query().Get("application_name") == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "dibs"
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if cfg.ConnConfig.ValidateConnect == nil {
		cfg.ConnConfig.ValidateConnect = refuseStandby
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: time.Second, Count: 3}}
	cfg.ConnConfig.DialFunc = dialer.DialContext
	cfg.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) error {
		if err := b.before(ctx, cc); err != nil {
			return err
		}
		return renewed.renew(cc)
	}
	cfg.AfterConnect = b.after
	return cfg, nil
}

// withoutAddress drops the address, and with it any password, from the client's error.
func withoutAddress(err error) error {
	for {
		if _, ok := err.(*fs.PathError); ok { // it names a file, and no address
			break
		}
		inner, ok := err.(interface{ Unwrap() error })
		if !ok || inner.Unwrap() == nil {
			break
		}
		err = inner.Unwrap()
	}
	if e, ok := err.(*pgconn.ParseConfigError); ok {
		return fmt.Errorf("%T", e)
	}
	return err
}

// refuseStandby makes the client try the next host of the address. A standby's records lag behind
// and it grants nothing.
func refuseStandby(ctx context.Context, c *pgconn.PgConn) error {
	r := c.ExecParams(ctx, "SELECT pg_is_in_recovery()", nil, nil, nil, nil).Read()
	if r.Err != nil {
		return r.Err
	}
	if len(r.Rows) == 1 && string(r.Rows[0][0]) == "t" {
		return errStandby
	}
	return nil
}

// settings are made after connecting, since a pooler refuses unknown settings at connecting.
func settings(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, sqlSettings()[0])
	return err
}

// dial opens a connection beside the pool, made as the pool makes its own, for work that needs a session. It never
// goes through a pooler. The caller closes it, also after an error.
func dial(ctx context.Context, p *pgxpool.Pool) (*pgx.Conn, error) {
	cfg := p.Config()
	cc := cfg.ConnConfig.Copy()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cc); err != nil {
			return nil, err
		}
	}
	c, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, err
	}
	switch pooled, err := poolerBetween(ctx, c.PgConn()); {
	case err != nil:
		return c, err
	case pooled:
		return c, errPooled
	}
	return c, settings(ctx, c)
}
