package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/scheduler"
)

// serveOptions are the flags of `dibs serve`.
type serveOptions struct {
	store, scope, source string
	environment          string
	drain                time.Duration
	logJSON, verbose     bool
	sourceOptions
}

const serveHelp = `Serve the jobs of a manifest. Every server runs this: the store decides who runs each tick, and
exactly one server does (jobs of scope host: one per host). A job is a command, a request, or a task to
enqueue, which any worker of its queue does (dibs work).

SIGTERM and SIGINT drain: dibs claims no new ticks, and running work may go on for --drain. Then dibs
stops it, with its grace, and releases the leases. Hooks have until 4 s after the drain for their
remaining reports, at least 2 s. With the default all of this takes less than 30 s, if the work obeys
SIGTERM. A second signal ends the drain at once: dibs stops the work, with its grace, and exits 10 s
later, whatever still waits. A third one ends dibs at once; its guardians then kill the work. SIGHUP, or a
change of the file or of the directory's files, reloads the manifest without losing a tick. If the new
manifest has an error, dibs reports it and keeps the old one. dibs requests an application's manifest
again on SIGHUP only; it cannot read standard input again.

` + sourcesHelp + `

Exit status: 0 after a drain, 2 for a wrong manifest, 69 when the store is unavailable at the start,
128 plus the signal's number after more than one signal.`

// logJSONHelp is that of --log-json.
const logJSONHelp = "log as JSON lines on standard error; each line of the work's output is an event\noutput, with run_id, stream and line"

func newServe(e env) *cobra.Command {
	o := serveOptions{}
	cmd := &cobra.Command{Use: "serve MANIFEST", Short: "Serve a manifest of jobs; every server runs this", Long: serveHelp,
		Example: `  dibs serve jobs.yaml --store postgres://dibs@db/app
  dibs serve /etc/dibs/jobs.d --default-scope global --drain 1m
  dibs serve https://shop.internal --app shop --secret env:CRON_SECRET`,
		Args: exactly(1, "one manifest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source = args[0]
			return runServe(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	o.sourceOptions.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.scope, "default-scope", "", "host or global: the scope of jobs without concurrency_scope; required on a\nshared store")
	environmentFlag(cmd, &o.environment)
	f.DurationVar(&o.drain, "drain", 12*time.Second, "how long running work may go on after SIGTERM before dibs stops it")
	f.BoolVar(&o.logJSON, "log-json", false, logJSONHelp)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "also log lost races")
	return cmd
}

func (o serveOptions) logger(w io.Writer) *slog.Logger { return o.loggerFrom(w, slog.LevelInfo) }

// quietLogger logs what somebody should look at; the rest, if asked to.
func (o serveOptions) quietLogger(w io.Writer) *slog.Logger { return o.loggerFrom(w, slog.LevelWarn) }

func (o serveOptions) loggerFrom(w io.Writer, level slog.Level) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if o.verbose {
		opts.Level = slog.LevelDebug
	}
	return newLogger(w, func(w io.Writer) slog.Handler {
		if o.logJSON {
			opts.ReplaceAttr = inSeconds
			return slog.NewJSONHandler(w, opts)
		}
		return slog.NewTextHandler(w, opts)
	})
}

// inSeconds writes durations as the rest of our JSON does: in seconds, and with the unit in the name.
func inSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
	}
	return a
}

// service is a process that serves: a server per place that its jobs need.
type service struct {
	serveOptions
	env
	address address
	from    *source.Source
	log     *slog.Logger
	app     string
	told    time.Time       // when it was told to stop
	bare    bool            // one fire of one job: its output goes without its name, the store's weaknesses unsaid
	asked   context.Context // of one fire: ended when the process is told to end
	places  map[job.Scope]*opened
	hooks   map[job.Scope]*hook.Runner
	inner   *inner
	queues  map[job.Scope]*queue.Client // of the places whose jobs enqueue
	lines   *lineLog                    // of what they print, with --log-json
	manager *notifier                   // of services

	// stopGrace is the longest of any job that was served, in nanoseconds; 0: none was.
	stopGrace atomic.Int64

	mu      sync.Mutex // guards what follows
	servers map[job.Scope]*scheduler.Server
	running map[job.Scope]bool
	failed  error
	serving sync.WaitGroup
	// mirroring ends the copying of this host's own jobs, after one last time; nil: there is none.
	mirroring func()
}

func runServe(ctx context.Context, e env, o serveOptions) error {
	if o.scope != "" {
		if _, err := job.ParseScope(o.scope); err != nil {
			return usage(fmt.Errorf("--default-scope: %w", err))
		}
	}
	a, err := resolve(o.store)
	if err != nil {
		return usage(err)
	}
	from, err := o.open(e, o.source)
	if err != nil {
		return err
	}
	o.source = from.String()
	log := o.logger(e.stderr)
	s := &service{serveOptions: o, env: e, address: a, from: from, log: log, inner: newInner(a, log), manager: newNotifier(),
		places: map[job.Scope]*opened{}, hooks: map[job.Scope]*hook.Runner{}, servers: map[job.Scope]*scheduler.Server{}, running: map[job.Scope]bool{}}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // a daemon's, nohup or not: it reloads
	defer signal.Stop(hangup)
	accept, hurry, stop := stoppedTwice(ctx, s.lastGrace, syscall.SIGTERM, syscall.SIGINT)
	defer stop() // last of all: until then the signals are ours

	useScopes(accept, log)
	watch := newWatch(from)
	m, err := s.load(accept)
	defer s.close()
	if err == nil {
		err = s.apply(accept, m)
	} else {
		err = usage(err)
	}
	switch {
	case accept.Err() != nil && ctx.Err() == nil:
		s.log.Info("stopped before it served anything", "event", "draining")
		return nil
	case err != nil:
		return err
	}
	s.log.Info("serving", "event", "serving", "app", s.app, "jobs", len(m.specs), "manifest", o.source, "reloaded_on", watch.when())
	s.manager.ready("serving %d jobs of %s", len(m.specs), s.app)
	return s.run(accept, hurry, hangup, watch)
}

// lastGrace is what is left to this process once it was told twice to stop: nothing while it serves nothing, then
// what its work may take to stop, and something to release the leases and to tell the hooks.
func (s *service) lastGrace() time.Duration {
	if grace := time.Duration(s.stopGrace.Load()); grace > 0 {
		return grace + forcedAfter
	}
	return 0
}

// A reading is what was read of the manifest. Nothing of it counts before it is applied, and then all of it does.
type reading struct {
	app   string
	specs []*job.Spec
	// env is the environment of commands.
	env []string
}

// load reads the manifest and decides each job's scope (rule H2, promise 12). It changes nothing.
func (s *service) load(ctx context.Context) (*reading, error) {
	m, err := s.from.Load(ctx)
	if err != nil {
		return nil, err
	}
	if s.app != "" && m.App != s.app {
		return nil, fmt.Errorf("%s: the app is now %q and was %q, and a running server cannot change it: restart it", s.source, m.App, s.app)
	}
	r := &reading{app: m.App}
	for i := range m.Jobs {
		if err := s.decideScope(&m.Jobs[i]); err != nil {
			return nil, err
		}
		r.specs = append(r.specs, &m.Jobs[i])
	}
	r.env = s.environ(r.specs)
	return r, nil
}

func (s *service) decideScope(spec *job.Spec) error {
	shared := s.address.shared()
	if !spec.ScopeDeclared {
		switch {
		case s.scope != "":
			spec.Policy.Scope = job.Scope(s.scope)
		case shared:
			return fmt.Errorf("%s: job %s has no concurrency_scope, so on the shared store %s EVERY server would run it: give --default-scope global (one server runs each tick) or --default-scope host",
				s.source, spec.Key(), s.address)
		}
	}
	if spec.Policy.Scope == job.Global && !shared {
		if !s.address.OnlyHost {
			return fmt.Errorf("%s: job %s is global, and %s reaches only this host: name a shared store with --store or DIBS_STORE, make it scope host, or declare with ?reach=only-host that there is no other host", s.source, spec.Key(), s.address)
		}
		spec.Policy.Scope = job.Host // which is all there is
	}
	return nil
}

// apply opens the places that the jobs need and hands each its jobs. A place that has none left gets the empty
// list. All of it is one swap, at the end, when nothing can fail any more; a place that was opened for jobs which were
// refused is closed again.
func (s *service) apply(ctx context.Context, r *reading) (err error) {
	before := maps.Clone(s.places)
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
		if err := s.place(ctx, spec.Policy.Scope); err != nil {
			return err
		}
		j, err := s.build(spec, r.env)
		if err != nil {
			return usage(fmt.Errorf("%s: job %s: %w", s.source, spec.Key(), err))
		}
		set, err := s.hooksFor(spec, r.env)
		if err != nil {
			return usage(fmt.Errorf("%s: job %s: %w", s.source, spec.Key(), err))
		}
		jobs[spec.Policy.Scope] = append(jobs[spec.Policy.Scope], j)
		swaps = append(swaps, set, func() { s.stopGrace.Store(max(s.stopGrace.Load(), int64(max(spec.Policy.StopGrace, 1)))) })
	}
	var changes []scheduler.Change
	for _, scope := range []job.Scope{job.Global, job.Host} { // what is far away, and so likelier to fail, comes first
		if server := s.servers[scope]; server != nil {
			changes = append(changes, scheduler.Change{Server: server, Jobs: jobs[scope]})
		}
	}
	prepared, err := scheduler.PrepareAll(ctx, changes)
	switch {
	case errors.Is(err, scheduler.ErrOtherSource):
		return usage(fmt.Errorf("%s: %w. If this application owns it, add --app %s on every server",
			s.source, err, r.app))
	case errors.Is(err, scheduler.ErrFunction):
		return usage(fmt.Errorf("%s: %w", s.source, err))
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

// forget closes the places that are not among those that stay.
func (s *service) forget(stay map[job.Scope]*opened) {
	for scope, p := range s.places {
		if stay[scope] == p {
			continue
		}
		s.mu.Lock()
		delete(s.servers, scope)
		s.mu.Unlock()
		delete(s.places, scope)
		delete(s.hooks, scope) // nothing was told on them
		if c := s.queues[scope]; c != nil {
			c.Close()
			delete(s.queues, scope)
		}
		p.close()
	}
	s.inner.close()
}

// place opens the place of a scope once. The directory opens only when something is host-scoped.
func (s *service) place(ctx context.Context, scope job.Scope) error {
	if s.places[scope] != nil {
		return nil
	}
	config := s.address.Config
	if scope == job.Host {
		var err error
		if config, err = s.address.host(); err != nil {
			return usage(err)
		}
	}
	role := ""
	if !s.bare {
		role = scheduler.ServerOf(s.app)
	}
	p, err := openAs(ctx, config, s.log, role)
	if err != nil {
		return err
	}
	if !p.store.Ticked() {
		_ = p.store.Close()
		return usage(fmt.Errorf("store %s has no durable claims: it supports only `dibs run` without --once-per", config))
	}
	s.places[scope], s.hooks[scope] = p, s.hooksOf(p)
	s.mu.Lock()
	s.servers[scope] = scheduler.NewServer(p.Place, s.app)
	s.mu.Unlock()
	s.log.Info("store opened", "event", "store-opened", "scope", scope, "store", config.String(), "namespace", config.Namespace,
		"installation", p.store.Properties.InstallationID, "survives_silence", p.Keeper.Margin().Outage())
	if s.bare {
		return nil // who serves says once what each fire would repeat
	}
	for _, w := range p.store.Properties.Weaker {
		s.log.Info(w, "event", "store-weaker", "store", config.String())
	}
	return nil
}

// run serves until it is told to stop and all is drained.
func (s *service) run(accept, hurry context.Context, hangup <-chan os.Signal, watch *watch) error {
	s.start(accept)
	s.serving.Go(func() { s.follow(accept, hangup, watch) })
	over := make(chan struct{})
	defer close(over)
	go s.manager.live(over, s.well)
	<-accept.Done()
	s.told = time.Now()
	s.manager.stopping()
	var by signaled
	if errors.As(context.Cause(accept), &by) {
		s.log.Info("draining: no new ticks; running work goes on for a while", "event", "draining", "signal", by.String(), "drain", s.drain)
	}
	idle := make(chan struct{})
	go func() { s.serving.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-hurry.Done():
		s.log.Warn("second signal: ending the drain", "event", "drain-ended")
		s.mu.Lock()
		for _, server := range s.servers {
			server.Hurry()
		}
		s.mu.Unlock()
		<-idle
	}
	s.mu.Lock()
	if s.mirroring != nil {
		s.mirroring()
	}
	s.mu.Unlock()
	for scope, server := range s.servers {
		s.log.Info("served: "+server.Stats.String(), "event", "served", "scope", scope)
	}
	return s.failed
}

// well returns if nothing hangs that a reload or a drain needs.
func (s *service) well() {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// start has each server that is not running yet run.
func (s *service) start(accept context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startMirror()
	for scope, server := range s.servers {
		if s.running[scope] {
			continue
		}
		s.running[scope] = true
		s.serving.Go(func() {
			err := server.Run(accept, s.drain)
			s.mu.Lock()
			s.failed = errors.Join(s.failed, err)
			s.mu.Unlock()
		})
	}
}

// follow reloads the manifest when it is asked to and when a file changes, until accept ends.
func (s *service) follow(accept context.Context, hangup <-chan os.Signal, watch *watch) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	delayed := false // a SIGHUP that the store has not let through yet
	for {
		select {
		case <-accept.Done():
			return
		case <-hangup:
			delayed = !s.reload(accept, "SIGHUP")
		case <-look.C:
			switch {
			case watch.changed():
				if s.reload(accept, "the file changed") {
					watch.seen()
				}
			case delayed:
				delayed = !s.reload(accept, "SIGHUP")
			}
		}
	}
}

// reloadTime bounds the handing over of a manifest, of which each request has its own bound: what is not done then is
// gone on with at the next try.
const reloadTime = time.Minute

// reload replaces the manifest. One with an error changes nothing; it reports false where the store
// did not answer, and the same text is to be tried again.
func (s *service) reload(accept context.Context, why string) bool {
	s.manager.reloading()
	defer func() { s.manager.ready("serving %s", s.app) }()
	m, err := s.load(accept) // which bounds itself
	if err == nil {
		ctx, cancel := context.WithTimeout(accept, reloadTime)
		defer cancel()
		err = s.apply(ctx, m)
	}
	switch {
	case accept.Err() != nil:
		return false // it is being drained
	case errors.Is(err, lease.ErrUnavailable):
		s.log.Warn("the store does not answer, so the new manifest is not loaded yet", "event", "reload-delayed", "why", why, "error", err)
		return false
	case err != nil:
		s.log.Error("the new manifest was not loaded; the old one stays in force", "event", "reload-failed", "why", why, "error", err)
		return true
	}
	s.start(accept)
	s.log.Info("manifest reloaded", "event", "reloaded", "why", why, "jobs", len(m.specs))
	return true
}

func (s *service) close() {
	s.closeHooks()
	for _, c := range s.queues {
		c.Close()
	}
	for _, p := range s.places {
		p.close()
	}
}
