package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/internal/environ"
	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/internal/nested"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/internal/secret"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/scheduler"
)

// service is what a Server and a Job have in common: the jobs of a manifest, and a home for each scope that they
// need.
type service struct {
	o       Options
	at      Store
	log     *slog.Logger
	from    *source.Source
	secrets secret.Places
	inner   *nested.Inner
	printer *output.Printer // nil: nothing is printed
	lines   *output.LineLog // in its place
	bare    bool            // one fire of one job: its output goes without its name, the store's weaknesses unsaid

	app       string
	homes     map[job.Scope]*home
	stopGrace atomic.Int64 // the longest of any job that was served, in nanoseconds; 0: none was

	mu sync.Mutex // guards the servers among the homes
}

// A home is where the jobs of a scope live.
type home struct {
	*backend.Backend
	at     Store
	hooks  *hook.Runner
	queue  *queue.Client // made for the first job that enqueues
	server *scheduler.Server
	serves bool // its server runs
}

func newService(at Store, m Manifest, o Options, bare bool) (*service, error) {
	o, err := o.checked()
	if err == nil {
		err = refused("", at.check("the store"))
	}
	if err != nil {
		return nil, o.cured(err)
	}
	from, err := m.Source()
	if err != nil {
		return nil, o.cured(err)
	}
	s := &service{o: o, at: at, log: o.Logger, from: from, secrets: m.places(), bare: bare, homes: map[job.Scope]*home{}}
	switch {
	case o.Lines != nil:
		s.lines = output.NewLineLog(o.Lines)
	case o.Output != nil:
		s.printer = output.PrinterOf(o.Output)
	}
	s.inner = at.inner(o.backend("", ""))
	return s, nil
}

// A reading is what was read of the manifest. Nothing of it counts before it is applied, and then all of it does.
type reading struct {
	app   string
	specs []*job.Spec
	// env is the environment of commands.
	env []string
}

// load reads the manifest and decides each job's scope (rule H2, promise 12). It changes nothing. Its error is a
// *Refusal.
func (s *service) load(ctx context.Context) (*reading, error) {
	m, err := s.from.Load(ctx)
	if err == nil && s.app != "" && m.App != s.app {
		err = fmt.Errorf("%s: the app is now %q and was %q, and a running server cannot change it: restart it", s.from, m.App, s.app)
	}
	if err != nil {
		return nil, s.o.cured(refused(s.app, err))
	}
	r := &reading{app: m.App}
	for i := range m.Jobs {
		if err := s.at.DecideScope(&m.Jobs[i], s.o.DefaultScope, s.from.String()); err != nil {
			return nil, s.o.cured(err)
		}
		r.specs = append(r.specs, &m.Jobs[i])
	}
	r.env = s.environ(r.specs)
	return r, nil
}

// environ returns the environment of this process for commands, without the variables that hold secrets of the
// manifest or that jobs name; each of the latter is only for the job that names it. It also removes them from what
// the kernel shows of this process.
func (s *service) environ(specs []*job.Spec) []string {
	var refs []string
	for _, spec := range specs {
		refs = append(refs, secret.Of(spec)...)
	}
	hidden := s.secrets.Variables(refs...)
	_ = environ.Hide(slices.Collect(maps.Keys(hidden))...) // where it cannot be, it is as it was
	return slices.DeleteFunc(s.inner.Environ(os.Environ()), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return hidden[name]
	})
}

// move opens the home of a scope once. The host's own store is opened only if a job is host-scoped.
func (s *service) move(ctx context.Context, scope job.Scope) error {
	if s.homes[scope] != nil {
		return nil
	}
	at, err := s.storeOf(scope)
	if err != nil {
		return err
	}
	role := ""
	if !s.bare {
		role = scheduler.ServerCommand(s.app)
	}
	b, err := at.open(ctx, s.o.backend(role, s.app))
	if err != nil {
		return err
	}
	if !b.Store.Ticked() {
		b.Close()
		return &Refusal{App: s.app, What: fmt.Errorf("store %s has no durable claims: it supports only `dibs run` without --once-per", at)}
	}
	h := &home{Backend: b, at: at, hooks: hook.New(hook.Options{History: b.History, Event: b.Record, Log: s.log, Enter: s.inner.Enter}),
		server: scheduler.NewServer(b.Backend, s.app)}
	h.Hooks = h.hooks
	s.mu.Lock()
	s.homes[scope] = h
	s.mu.Unlock()
	s.log.Info("store opened", "event", "store-opened", "scope", scope, "store", at.String(), "namespace", at.Config.Namespace,
		"installation", b.Store.Properties.InstallationID, "survives_silence", b.Keeper.Margin().Survives())
	if s.bare {
		return nil // who serves says once what each fire would repeat
	}
	for _, w := range b.Store.Properties.Weaker {
		s.log.Info(w, "event", "store-weaker", "store", at.String())
	}
	return nil
}

// storeOf returns where the jobs of a scope live.
func (s *service) storeOf(scope job.Scope) (Store, error) {
	switch {
	case scope != job.Host || !s.at.shared():
		return s.at, nil
	case s.o.Host.none():
		return Store{}, s.o.cured(&Refusal{App: s.app, What: fmt.Errorf("%s: a job of scope host %w, and no store of this host is named", s.from, ErrNoHost),
			Cure: "set Options.Host, or make the job global"})
	}
	return s.o.Host, nil
}

// apply opens the homes that the jobs need and gives each home its jobs. A home without jobs gets the empty list.
// All of it is one swap, at the end, when nothing can fail any more; a home that was opened for jobs which were
// refused is closed again.
func (s *service) apply(ctx context.Context, r *reading) (err error) {
	before := maps.Clone(s.homes)
	defer func() {
		if err != nil {
			s.forget(before)
		}
	}()
	if s.app == "" {
		s.app = r.app
	}
	jobs := map[job.Scope][]*scheduler.Job{}
	var swaps []func()
	for _, spec := range r.specs {
		if err := s.move(ctx, spec.Policy.Scope); err != nil {
			return err
		}
		j, set, err := s.prepare(spec, r.env)
		if err != nil {
			return s.refuse(fmt.Errorf("%s: job %s: %w", s.from, spec.Key(), err))
		}
		jobs[spec.Policy.Scope] = append(jobs[spec.Policy.Scope], j)
		swaps = append(swaps, set, func() { s.stopGrace.Store(max(s.stopGrace.Load(), int64(max(spec.Policy.StopGrace, 1)))) })
	}
	var changes []scheduler.Change
	for _, scope := range []job.Scope{job.Global, job.Host} { // what is far away, and so likelier to fail, comes first
		if h := s.homes[scope]; h != nil {
			changes = append(changes, scheduler.Change{Server: h.server, Jobs: jobs[scope]})
		}
	}
	prepared, err := scheduler.PrepareAll(ctx, changes)
	switch {
	case errors.Is(err, scheduler.ErrOtherSource), errors.Is(err, scheduler.ErrFunction):
		return s.refuse(fmt.Errorf("%s: %w", s.from, err))
	case err != nil:
		return err
	}
	for _, p := range prepared {
		defer p.Close()
		swaps = append(swaps, p.Swap)
	}
	for _, swap := range swaps {
		swap()
	}
	return nil
}

// refuse makes a Refusal of an error.
func (s *service) refuse(err error) error { return s.o.cured(refused(s.app, err)) }

// forget closes the homes that are not in stay.
func (s *service) forget(stay map[job.Scope]*home) {
	for scope, h := range s.homes {
		if stay[scope] == h {
			continue
		}
		s.mu.Lock()
		delete(s.homes, scope) // nothing was told on its hooks
		s.mu.Unlock()
		h.close()
	}
}

func (h *home) close() {
	if h.queue != nil {
		h.queue.Close()
	}
	h.Close()
}

// close lets hooks report what is left, within ctx, and releases everything.
func (s *service) close(ctx context.Context) {
	s.closeHooks(ctx)
	for _, h := range s.homes {
		h.close()
	}
	s.inner.Close()
}

// longestStop returns the longest time that served work may take to stop; 0: nothing was served.
func (s *service) longestStop() time.Duration { return time.Duration(s.stopGrace.Load()) }
