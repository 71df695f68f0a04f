package storetest

import (
	"errors"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// reading: a store that is only looked at stays as it was, also one that nobody has prepared.
func reading(w *world) {
	config := w.config
	config.Namespace += "r"
	config.Read = true
	for range 2 {
		w.notPrepared(config)
	}
	config.Init = true
	w.notPrepared(config) // whatever init would state

	config.Init, config.Read = true, false
	prepared := w.opened(config)
	r := w.hold(prepared, "held")
	config.Init, config.Read = false, true
	s := w.opened(config)
	equal(w, "what it changed", strings.Join(s.Prepared, "; "), "")
	equal(w, "the installation id", s.Properties.InstallationID, prepared.Properties.InstallationID)
	equal(w, "max_ttl", s.Properties.MaxTTL, prepared.Properties.MaxTTL)
	equal(w, "the schema", s.Properties.Schema, prepared.Properties.Schema)
	equal(w, "the keys that are held", len(w.list(s, "", true)), 1)
	equal(w, "its holder", w.read(s, "held").Record.Owner, r.Owner)
	w.check("look", look(w, s))

	config.TTL = 40 * w.s.Properties.MaxTTL
	if s, err := w.open(w.ctx, config); w.s.Properties.Reach != store.Host && err == nil {
		_ = s.Close()
		w.Error("it opens with another ttl than the namespace's")
	}
	config.TTL, config.SeenTTL = 0, 0
	equal(w, "max_ttl after it", w.opened(config).Properties.MaxTTL, prepared.Properties.MaxTTL)
	config.Expect = lease.NewNonce().String()
	if s, err := w.open(w.ctx, config); err == nil {
		_ = s.Close()
		w.Error("it opens although another installation is expected")
	}
}

// notPrepared opens what nobody has prepared.
func (w *world) notPrepared(c store.Config) {
	w.Helper()
	s, err := w.open(w.ctx, c)
	if err == nil {
		_ = s.Close()
		w.Fatal("it opens although nobody has prepared it")
	}
	w.refusal(err, store.ErrNotPrepared, c, "is not prepared: run `dibs init --store ")
}

// refusal is an error of a kind, with the cure and without the password.
func (w *world) refusal(err, kind error, c store.Config, parts ...string) {
	w.Helper()
	if !errors.Is(err, kind) {
		w.Errorf("it does not wrap %q: %v", kind, err)
	}
	for _, part := range append(parts, c.URL.Scheme+":") {
		if !strings.Contains(err.Error(), part) {
			w.Errorf("the refusal does not say %q: %v", part, err)
		}
	}
	if pass, ok := c.URL.User.Password(); ok && pass != "" && strings.Contains(err.Error(), ":"+pass+"@") {
		w.Error("the refusal shows the password")
	}
}

// look asks everything that is there to be looked at.
func look(w *world, s *store.Store) error {
	_, err := s.Leases.Read(w.ctx, []lease.Key{"k"})
	if s.Ticks != nil {
		_, terr := s.Ticks.Jobs(w.ctx, tick.JobQuery{Limit: 1})
		err = errors.Join(err, terr)
	}
	if s.History != nil {
		_, herr := s.History.Runs(w.ctx, history.Query{Limit: 1})
		err = errors.Join(err, herr)
	}
	if s.Tasks != nil {
		_, qerr := s.Tasks.Tasks(w.ctx, driver.Filter{Max: 1})
		err = errors.Join(err, qerr)
	}
	return err
}

// RunUnprepared checks that reading a place where dibs has never been leaves it bare. url is the place's; bare
// says what is there of dibs's, and nothing if there is nothing.
func RunUnprepared(t *testing.T, open Open, url string, there func(t *testing.T) string) {
	t.Helper()
	w := fallow(t, open, url)
	c := w.config
	c.Read = true
	if before := there(t); before != "" {
		t.Fatalf("the place has %s before anybody was there", before)
	}
	for _, c.Namespace = range []string{store.DefaultNamespace, w.config.Namespace} {
		w.notPrepared(c)
		if made := there(t); made != "" {
			t.Errorf("reading made %s", made)
		}
	}
}

// RunOutdated checks that reading does not upgrade a store of an older version. age makes a prepared store look
// older; version tells what it has.
func RunOutdated(t *testing.T, open Open, url string, age func(*testing.T), version func(*testing.T) int) {
	t.Helper()
	w := fallow(t, open, url)
	if s := w.prepare(); look(w, s) != nil { // a directory makes its database when it is asked
		t.Fatal("a new store does not answer")
	}
	age(t)
	old := version(t)
	c := w.config
	c.Read = true
	s, err := w.open(w.ctx, c)
	if err == nil { // it finds out when it is asked
		w.Cleanup(func() { _ = s.Close() })
		err = look(w, s)
	}
	if err == nil {
		t.Fatal("a store of an older version is read as if it were of this one")
	}
	w.refusal(err, store.ErrOutdated, c, "dibs init --store", " version ")
	equal(w, "the version after it was read", version(t), old)
}
