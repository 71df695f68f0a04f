package serve

import (
	"context"
	"fmt"

	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/internal/nested"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
)

// A Store says where jobs or tasks live: in a store that is already open, or in one that is opened when it is first
// needed.
type Store struct {
	// Opened is an open store. The caller still owns it and closes it at the end.
	Opened *store.Store
	// Open opens the store at Config, for instance postgres.OpenConfig; it is closed at the end. If Opened is set,
	// Open is not called. Config.OnlyHost counts in any case.
	Open   func(context.Context, store.Config) (*store.Store, error)
	Config store.Config
	// Fleet states that a store to be opened can reach beyond this host, as all but directories can.
	Fleet bool
	// File is the path of the file that holds the address, if the address comes from one: commands find it in
	// DIBS_STORE_FILE. Default states that commands which name no store use this one anyway. Without either, they
	// reach it only by `dibs task enqueue`, through this process.
	File    string
	Default bool
}

// String returns the address without its password.
func (s Store) String() string {
	if s.Opened != nil {
		return s.Opened.URL
	}
	return s.Config.String()
}

// none reports whether this is the zero value.
func (s Store) none() bool { return s.Opened == nil && s.Open == nil }

// shared reports whether it reaches beyond this host.
func (s Store) shared() bool {
	if s.Opened != nil {
		return s.Opened.Properties.Reach == store.Fleet
	}
	return s.Fleet
}

func (s Store) check(what string) error {
	switch {
	case s.none():
		return fmt.Errorf("serve: %s is no store: set Opened, or Open and Config", what)
	case s.Opened == nil && s.Config.URL == nil:
		return fmt.Errorf("serve: %s has no address: set Config, which store.Parse makes", what)
	}
	return nil
}

func (s Store) address() backend.Address {
	return backend.Address{Config: s.Config, Fleet: s.Fleet, Via: s.Open}
}

// open makes the backend of the store, and opens it if it is not open.
func (s Store) open(ctx context.Context, o backend.Options) (*backend.Backend, error) {
	if s.Opened == nil {
		return backend.Open(ctx, s.address(), o)
	}
	if s.Config.Namespace != "" {
		o.Namespace = s.Config.Namespace
	}
	return backend.New(s.Opened, o)
}

// inner returns how commands reach the store.
func (s Store) inner(o backend.Options) *nested.Inner {
	return nested.NewInner(nested.InnerOptions{File: s.File, Default: s.Default, Log: o.Log, Open: func(ctx context.Context) (driver.Store, func(), error) {
		return backend.Queues(ctx, func(ctx context.Context) (*backend.Backend, error) { return s.open(ctx, o) })
	}})
}

// DecideScope sets the scope of a job that declares none to the one that applies on this store (rule H2), and
// refuses a job whose scope the store cannot offer (promise 12). fallback is Options.DefaultScope; from names the
// manifest. The error is a *Refusal.
func (s Store) DecideScope(spec *job.Spec, fallback job.Scope, from string) error {
	shared := s.shared()
	if !spec.ScopeDeclared {
		switch {
		case fallback != "":
			spec.Policy.Scope = fallback
		case shared:
			return &Refusal{App: spec.App, What: fmt.Errorf("%s: job %s %w, so on the shared store %s EVERY server would run it",
				from, spec.Key(), ErrNoScope, s), Cure: "set Options.DefaultScope to global (one server runs each tick) or to host"}
		}
	}
	if spec.Policy.Scope == job.Global && !shared {
		if !s.Config.OnlyHost {
			return &Refusal{App: spec.App, What: fmt.Errorf("%s: job %s is global, and %s %w", from, spec.Key(), s, ErrReach),
				Cure: "use a shared store, make the job scope host, or say with Store.Config.OnlyHost that there is no other host"}
		}
		spec.Policy.Scope = job.Host // which is all there is
	}
	return nil
}
