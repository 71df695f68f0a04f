// Package store describes an opened store: which contracts it implements, and how far its promises reach.
//
// A program opens a store with the Open of a package below this one, such as store/postgres, and links no other
// client. store/all opens any address. The [Store] has the contracts that other packages need: Leases for
// lease.NewKeeper, Ticks and History for package scheduler, Queue for package queue, Fleet for both. A contract that
// the technology does not offer is nil. [Properties] says where a store promises less than others.
//
//	st, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
//	…
//	defer st.Close()
//
// # For maintainers
//
// [Config] is a parsed address. Each package below has OpenConfig for it, makes its Open of [OpenURL], and fills in
// Properties truthfully: storetest checks them. Errors never show a password.
package store

import (
	"context"
	"os"
	"time"

	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/tick"
)

// A Store is an opened store. A contract that the technology does not offer is nil.
type Store struct {
	// Kind is the technology, such as "redis"; URL the address without its password.
	Kind, URL string

	Leases  lease.Store
	Ticks   tick.Store
	History history.Store
	// Queue accepts tasks and gives them to workers. Tasks is the operator's side of it.
	Queue driver.Store
	Tasks driver.Admin
	// Fleet keeps which processes serve and work.
	Fleet fleet.Store
	// Notify signals that a lease was released; nil if the store cannot, and waiters poll.
	Notify lease.Notifier
	// Descriptor is set only by the directory: it returns the open file whose kernel lock is the hold, so that a
	// command can inherit it and keep the lock for as long as any of its processes lives. The caller owns the
	// duplicate that it gets. After Detach the store no longer holds its own copy: the lock then lives and dies with
	// the processes that inherited it.
	Descriptor func(ref lease.Ref) (*os.File, error)
	Detach     func(ref lease.Ref) error

	// Unreadable lists, in words, the records that readers have stepped over since the store was opened, because they
	// could not be read; nil: the store does not keep account.
	Unreadable func() []string

	Properties Properties
	// Prepared says what opening the store changed (created, upgraded), in lines for people.
	Prepared []string
	// Close closes the connections. It releases no lease.
	Close func() error
}

// Reach is how far a lease excludes.
type Reach string

// The reaches.
const (
	Process Reach = "process"
	Host    Reach = "host"
	Fleet   Reach = "fleet"
)

// Properties are what a store declares about itself; storetest checks them.
type Properties struct {
	Reach Reach
	// InstallationID is random, created with the store, and the same for all who share it (rule H2).
	InstallationID string
	// MaxTTL is the longest TTL that the store grants (rule L9).
	MaxTTL time.Duration
	// HoldUntil is the store instant before which nothing is granted, as seen when the store was opened; zero if it
	// grants (rule L9).
	HoldUntil time.Time
	// Durable means that an acknowledged write survives a power loss of the store; Session means that leases also
	// need a session lock (?lock=session).
	Durable, Session bool
	// Schema is the version of the store's layout, as found or made when it was opened; 0 if it has none.
	Schema int
	// Weaker lists, in sentences, where this store promises less than other stores, its Flaws included.
	Weaker []string
	// Flaws are those entries of Weaker that are settings: somebody can change them. Add them with Flaw.
	Flaws []Flaw
}

// A Flaw is a setting that breaks or weakens a promise of dibs.
type Flaw struct {
	// Breaks means that a promise does not hold because of the flaw; otherwise it is only weaker.
	Breaks bool
	// What says what is wrong, Cure how to fix it: a sentence each.
	What, Cure string
}

// String returns the flaw as Weaker has it.
func (f Flaw) String() string { return f.What + " " + f.Cure }

// Flaw adds a flaw, to Weaker as well.
func (p *Properties) Flaw(f Flaw) {
	p.Flaws, p.Weaker = append(p.Flaws, f), append(p.Weaker, f.String())
}

// Ticked reports whether the store can serve schedules: it has durable claims besides its leases (rule T9).
func (s *Store) Ticked() bool { return s.Leases != nil && s.Ticks != nil && s.History != nil }

// Now asks the store for its time.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	r, err := s.Leases.Read(ctx, nil)
	return r.Now, err
}
