// Package upgrade checks that a store which an earlier release made can be used by this tree and by the next one, with
// its data, while servers of the older version go on beside them.
//
// A store keeps what each release made in testdata/vX.Y.Z of its package: the data in a form of its own (a dump, a
// directory), and content.json, which is all that the public contracts read of it. Such a fixture never changes. The
// suite restores each of them, upgrades it, and compares. CONTRIBUTING.md says how to make one.
//
// There may be no later version than that of the fixtures. So the suite also upgrades to a made-up next version, which
// adds something, and which only the tests know.
package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

var fixture = flag.String("fixture", "", "make the fixtures of this release, such as v0.1.0, anew")

// A Subject is a store as the suite sees it.
type Subject struct {
	// Open is a program of this tree.
	Open func(ctx context.Context, c store.Config) (*store.Store, error)
	// Next is a program that knows one version more, which adds something. oldest is what that version states: the
	// oldest version whose programs may use the store after it.
	Next func(oldest int) func(ctx context.Context, c store.Config) (*store.Store, error)
	// Known is the newest version that this tree knows, and Version reads what a store has.
	Known   int
	Version func(t *testing.T, c store.Config, st *store.Store) int
	// Empty is the address of a place where nothing is yet. All fixtures use the namespace "shop".
	Empty func(t *testing.T) store.Config
	// Dump writes what is there into a directory, and Restore makes it again in an empty place.
	Dump    func(t *testing.T, c store.Config, dir string)
	Restore func(t *testing.T, dir string, c store.Config)
	// Kernel says that the kernel's locks decide about leases: those of a process or boot that is gone are free at
	// once, and are shown so.
	Kernel bool
	// HoldUntil changes a namespace's record: nothing is granted before that instant. What is restored is on another
	// server than it was, which holds back for as long as leases may live; nil where that makes no difference.
	HoldUntil func(t *testing.T, c store.Config, until time.Time)
	// SelfUpgrading says that every program upgrades the store which does more than read.
	SelfUpgrading bool
}

// ttl is that of the leases in fixtures, which nobody renews.
const ttl = 5 * time.Second

// Run checks a store with each of its fixtures.
func Run(t *testing.T, s Subject) {
	if *fixture != "" {
		s.make(t, filepath.Join("testdata", *fixture))
	}
	dirs, err := filepath.Glob("testdata/v*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("there is no fixture: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Run("data", func(t *testing.T) { t.Parallel(); s.data(t, dir) })
			t.Run("rolling", func(t *testing.T) { t.Parallel(); s.rolling(t, dir) })
			t.Run("refused", func(t *testing.T) { t.Parallel(); s.refused(t, dir) })
		})
	}
}

// make makes the fixture of a release.
func (s Subject) make(t *testing.T, dir string) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := s.empty(t)
	c.Init = true
	st := opened(t, s.Open, c)
	fill(t, st)
	b, err := json.MarshalIndent(s.read(t, st), "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "content.json"), append(b, '\n'), 0o644)
	}
	if err == nil {
		err = st.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Dump(t, c, dir)
}

func (s Subject) empty(t *testing.T) store.Config {
	c := s.Empty(t)
	c.Namespace = "shop"
	return c
}

func (s Subject) restored(t *testing.T, dir string) store.Config {
	c := s.empty(t)
	s.Restore(t, dir, c)
	if s.HoldUntil != nil {
		seen := c
		seen.Init = true
		opened(t, s.Open, seen)
		s.HoldUntil(t, c, time.Unix(1, 0))
	}
	return c
}

func opened(t *testing.T, open func(context.Context, store.Config) (*store.Store, error), c store.Config) *store.Store {
	t.Helper()
	st, err := open(t.Context(), c)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// tried opens a store and looks into it: a directory opens its database when it is first asked.
func tried(t *testing.T, open func(context.Context, store.Config) (*store.Store, error), c store.Config) error {
	t.Helper()
	st, err := open(t.Context(), c)
	if err == nil {
		_, err = st.Ticks.Jobs(t.Context(), tick.JobQuery{})
		_ = st.Close()
	}
	return err
}

// data: this tree and the next one have all that the release wrote, and go on with it.
func (s Subject) data(t *testing.T, dir string) {
	want := expected(t, dir)
	c := s.restored(t, dir)
	c.Init = true
	now := opened(t, s.Open, c)
	same(t, "with this tree", want, s.read(t, now))

	next := opened(t, s.Next(s.Known), c)
	_ = s.read(t, next) // a directory is upgraded when it is first asked
	if v := s.Version(t, c, next); v != s.Known+1 {
		t.Errorf("the upgraded store has version %d, want %d", v, s.Known+1)
	}
	if said := strings.Join(next.Prepared, "\n"); !s.SelfUpgrading && !strings.Contains(said, "upgraded") {
		t.Errorf("prepared: %q", said)
	}
	same(t, "with the next version", want, s.read(t, next))
	s.goesOn(t, next)
}

// refused: a program that may not use the store says so, and does nothing.
func (s Subject) refused(t *testing.T, dir string) {
	c := s.restored(t, dir)
	c.Init = true
	_ = s.read(t, opened(t, s.Open, c))
	next := s.Next(s.Known + 1)
	c.Init = false
	if !s.SelfUpgrading {
		if err := tried(t, next, c); !errors.Is(err, store.ErrOutdated) || !strings.Contains(err.Error(), "dibs init") {
			t.Errorf("a newer program, before the upgrade: %v", err)
		}
	}
	look := c
	look.Read = true
	if err := tried(t, next, look); !errors.Is(err, store.ErrOutdated) {
		t.Errorf("a newer program that only reads, before the upgrade: %v", err)
	}
	c.Init = true
	other := c
	other.Expect = lease.NewNonce().String()
	if err := tried(t, next, other); err == nil || errors.Is(err, store.ErrOutdated) {
		t.Errorf("an upgrade of another store than was meant: %v", err)
	}
	if err := tried(t, s.Open, c); err != nil {
		t.Errorf("a store that an upgrade was not meant for should stay as it is: %v", err)
	}
	before := s.read(t, opened(t, next, c))
	for what, c := range map[string]store.Config{"serves": c, "only reads": look} {
		if err := tried(t, s.Open, c); !errors.Is(err, store.ErrTooNew) || !strings.Contains(err.Error(), "upgrade dibs on this host") {
			t.Errorf("an older program that %s, after an upgrade that it may not use: %v", what, err)
		}
	}
	same(t, "after the refusals", plain(t, before), s.read(t, opened(t, next, c)))
}

// Schema is Subject.Version of stores whose properties tell the version.
func Schema(_ *testing.T, _ store.Config, st *store.Store) int { return st.Properties.Schema }
