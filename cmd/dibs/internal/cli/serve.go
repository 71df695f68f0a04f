package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/serve"
)

// serveOptions are the flags of `dibs serve`.
type serveOptions struct {
	store, scope, source string
	environment, metrics string
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
	cmd := &cobra.Command{Use: "serve MANIFEST", Short: "Run the jobs of a manifest; start this on every server", Long: serveHelp,
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
	f.StringVar(&o.scope, "default-scope", "", "host or global: the scope of jobs without concurrency_scope; required for\nsuch jobs on a shared store")
	environmentFlag(cmd, &o.environment)
	f.DurationVar(&o.drain, "drain", 12*time.Second, "how long running work may go on after SIGTERM before dibs stops it")
	metricsFlag(cmd, &o.metrics)
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
	return output.Logger(w, func(w io.Writer) slog.Handler {
		if o.logJSON {
			opts.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr { return aside.InSeconds(a) }
			return slog.NewJSONHandler(w, opts)
		}
		return slog.NewTextHandler(w, opts)
	})
}

// environmentFlag is the flag by which a server says what it is.
func environmentFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "environment", os.Getenv("DIBS_ENVIRONMENT"), "this server's `ENVIRONMENT`, for jobs with environments\n(default $DIBS_ENVIRONMENT)")
}

// options are what a server of these flags serves with.
func (o serveOptions) options(a address, e env, log *slog.Logger) serve.Options {
	of := serve.Options{DefaultScope: job.Scope(o.scope), Environment: o.environment, Sandbox: os.Getenv(job.SandboxVariable), Host: a.own(), StateDir: hostDir(), Drain: orNone(o.drain), Logger: log,
		ReloadedOn: "SIGHUP", Cure: cured}
	if of.Output = e.stdout; o.logJSON {
		of.Output, of.Lines = nil, e.stderr
	}
	return of
}

// orNone is a duration of a flag for an option whose zero value means the default.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

func runServe(ctx context.Context, e env, o serveOptions) error {
	if o.scope != "" {
		if _, err := job.ParseScope(o.scope); err != nil {
			return usage(misspelt("--default-scope", o.scope, err, "host", "global"))
		}
	}
	a, err := resolve(o.store)
	if err != nil {
		return usage(err)
	}
	m, err := o.manifest(e, o.source)
	if err != nil {
		return err
	}
	reap()
	log := o.logger(e.stderr)
	of := o.options(a, e, log)
	d := &daemon{manager: newNotifier(), over: make(chan struct{})}
	defer close(d.over)
	of.OnState = d.tell
	counters, observer := counting(o.metrics)
	of.Observe = observer
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // a daemon's, nohup or not: it reloads
	defer signal.Stop(hangup)
	accept, hurry, stop := stoppedTwice(ctx, d.lastGrace, syscall.SIGTERM, syscall.SIGINT)
	defer stop() // last of all: until then the signals are ours
	of.Hurry = hurry.Done()
	if d.Server, err = serve.New(a.at(), m, of); err != nil {
		return usage(err)
	}
	d.began.Store(true)
	stopMetrics, err := showMetrics(accept, log, a, o.metrics, counters, d)
	if err != nil {
		return err
	}
	defer stopMetrics()
	useScopes(accept, log)
	go d.reloadOn(accept, hangup)
	return refused(d.Run(accept))
}

// daemon is a server of a service manager.
type daemon struct {
	*serve.Server
	began   atomic.Bool // there is a Server
	manager *notifier
	known   bool          // the manager knows that it serves
	over    chan struct{} // closed at the end
}

// tell tells the manager what the server does.
func (d *daemon) tell(s serve.State) {
	switch {
	case s == serve.Reloading:
		d.manager.reloading()
	case s == serve.Draining:
		d.manager.stopping()
	case d.known:
		d.manager.ready("serving %s", d.App())
	default:
		d.known = true
		go d.manager.live(d.over, d.Alive)
		d.manager.ready("serving %d jobs of %s", d.Jobs(), d.App())
	}
}

// reloadOn reloads the manifest on each SIGHUP, which the log tells of.
func (d *daemon) reloadOn(accept context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-hangup:
			_ = d.Reload(accept)
		case <-accept.Done():
			return
		}
	}
}

// lastGrace is what is left to this process once it was told twice to stop: nothing while it serves nothing, then
// what its work may take to stop, and something to release the leases and to tell the hooks.
func (d *daemon) lastGrace() time.Duration {
	if !d.began.Load() {
		return 0
	}
	if grace := d.StopGrace(); grace > 0 {
		return grace + forcedAfter
	}
	return 0
}
