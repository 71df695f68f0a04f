package serve

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/observe"
	"github.com/dibs-run/dibs/queue"
)

// Options configure how the jobs of a manifest are served, or how one of them is fired. The zero value works with a
// store that reaches this host only.
type Options struct {
	// DefaultScope is the scope of jobs that declare none. Default none: on a shared store such a manifest is
	// refused, and on another store its jobs are this host's.
	DefaultScope job.Scope
	// Environment is what this server is, such as "production", for jobs that are meant for some environments only.
	Environment string
	// Sandbox is the hash of the sandbox that this process is in (job.Sandbox). A job that has another one is refused.
	// Default none.
	Sandbox string
	// Host is this host's own store, usually a directory, for jobs of scope host when the other store is shared:
	// Store{Open: file.OpenConfig, Config: …}. It is opened when the first such job is loaded. Its records are
	// copied to the shared store. Default none: beside a shared store, such jobs are refused.
	Host Store
	// StateDir is a directory of this host, such as /var/lib/shop. It keeps outcomes that could not be written to
	// the store while it was unavailable, and what is known about the store. Default none: they are kept in memory
	// until the process ends.
	StateDir string
	// Drain is how long runs may continue after Run's context has ended; then they are told to stop. Default 12 s,
	// which together with the usual 10 s that they then get fits into the 30 s that Kubernetes gives; negative:
	// none.
	Drain time.Duration
	// Hurry ends the drain at once when it is closed. Default never.
	Hurry <-chan struct{}
	// Observe receives what happens to ticks and runs, and to the leases of this process and the requests about them.
	// It is called on the path of the work, and must return at once. Nil: nobody does.
	Observe observe.Func
	// Logger logs what happens. Logging never delays work. Default slog.Default().
	Logger *slog.Logger
	// Output receives what jobs print, line by line, each after the job's name. Lines, if set, replaces it: it
	// receives one line of JSON per line, with the run that printed it. The last 64 KiB of what a run prints are
	// kept in the history in any case. A writer that blocks delays no run: lines are dropped then, and counted.
	// Default nowhere.
	Output, Lines io.Writer
	// OnState is called with what a Server does now. Loading and reloading wait for it. Nil: not called.
	OnState func(State)
	// ReloadedOn names, for the log, the event on which the program calls Reload, such as "SIGHUP". Default
	// "Reload".
	ReloadedOn string
	// Cure returns what to do about a Refusal, for a program whose users know the options by other names. If it
	// returns the empty text, or is nil, this package's own words stay.
	Cure func(*Refusal) string
}

// A State is what a Server does.
type State string

// The states. A server is serving again after each reload, whatever its result.
const (
	Serving   State = "serving"
	Reloading State = "reloading"
	Draining  State = "draining"
)

// checked returns the options with their defaults.
func (o Options) checked() (Options, error) {
	if o.DefaultScope != "" {
		if _, err := job.ParseScope(string(o.DefaultScope)); err != nil {
			return o, &Refusal{What: fmt.Errorf("serve: Options.DefaultScope: %w", err)}
		}
	}
	if !o.Host.none() {
		if err := o.Host.check("Options.Host"); err != nil {
			return o, &Refusal{What: err}
		}
	}
	o.Drain = max(cmp.Or(o.Drain, defaultDrain), 0)
	o.Logger = aside.Logger(cmp.Or(o.Logger, slog.Default()))
	o.ReloadedOn = cmp.Or(o.ReloadedOn, "Reload")
	return o, nil
}

const defaultDrain = queue.DefaultGrace

// cured rewords a refusal for the program's users.
func (o Options) cured(err error) error {
	if r, ok := err.(*Refusal); ok && o.Cure != nil {
		r.Cure = cmp.Or(o.Cure(r), r.Cure)
	}
	return err
}

// backend returns the options that are the same for all stores.
func (o Options) backend(role, app string) backend.Options {
	return backend.Options{Role: role, Dir: o.StateDir, Namespace: app, Reclaim: true, Observe: o.Observe, Log: o.Logger}
}
