// Package all lists the stores and opens one by its address. A program that needs one store imports that store's
// package instead, and links no other client.
package all

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/file"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/store/mysql"
	"github.com/dibs-run/dibs/store/postgres"
	"github.com/dibs-run/dibs/store/redis"
)

// A Driver is one technology.
type Driver struct {
	Open func(context.Context, store.Config) (*store.Store, error)
	// Migrations are the files that `dibs init` applies, in the order of their names; nil where
	// there is no schema.
	Migrations fs.FS
	// Fleet says whether it can reach beyond one host.
	Fleet bool
}

// Drivers are the stores by the scheme of their address.
var Drivers = map[string]Driver{
	"file":       {Open: file.OpenConfig, Migrations: file.Migrations},
	"memory":     {Open: memory.OpenConfig},
	"redis":      {Open: redis.OpenConfig, Fleet: true},
	"rediss":     {Open: redis.OpenConfig, Fleet: true},
	"postgres":   {Open: postgres.OpenConfig, Migrations: postgres.Migrations, Fleet: true},
	"postgresql": {Open: postgres.OpenConfig, Migrations: postgres.Migrations, Fleet: true},
	"mysql":      {Open: mysql.OpenConfig, Migrations: mysql.Migrations(), Fleet: true},
	"mariadb":    {Open: mysql.OpenConfig, Migrations: mysql.Migrations(), Fleet: true},
}

// For is the driver of an address.
func For(c store.Config) (Driver, error) {
	d, ok := Drivers[c.URL.Scheme]
	if !ok {
		return d, fmt.Errorf("store address: its scheme is unknown; known are %s", strings.Join(store.Schemes, ", "))
	}
	if c.Session && d.Fleet && strings.HasPrefix(c.URL.Scheme, "redis") || c.Session && !d.Fleet {
		return d, fmt.Errorf("store address %s: only mysql and postgres have lock=session; leave it out", c)
	}
	return d, nil
}

// OpenConfig opens the store at an address that is parsed already.
func OpenConfig(ctx context.Context, c store.Config) (*store.Store, error) {
	d, err := For(c)
	if err != nil {
		return nil, err
	}
	s, err := d.Open(ctx, c)
	return s, c.Scrub(err)
}
