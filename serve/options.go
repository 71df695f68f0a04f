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
	"github.com/dibs-run/dibs/queue"
)

// Options say how the jobs of a manifest are served, or one of them is fired. The zero value serves on a store that
// reaches this host only.
type Options struct {
	// DefaultScope is the scope of jobs that do not say theirs. Default none: on a store that is shared such a
	// manifest is refused, and on another one they are this host's.
	DefaultScope job.Scope
	// Environment is what this server is, such as "production", for jobs that are meant for some environments only.
	Environment string
	// Host is this host's own store, in which the jobs of scope host live beside a shared one, usually a directory:
	// Store{Open: file.OpenConfig, Config: …}. It is opened when the first such job is loaded. What it records is
	// copied to the shared one. Default none: such jobs are refused beside a shared store.
	Host Store
	// StateDir is a directory of this host, such as /var/lib/shop, in which outcomes survive that the store could
	// not be told while it was away, and in which is kept what is known of the store. Default none: they are kept in
	// memory for as long as the process lives.
	StateDir string
	// Drain is how long runs may go on once Run's context has ended; then they are told to stop. Default 12 s, which
	// with the usual 10 s that they then get is over within the 30 s that Kubernetes gives; negative: none.
	Drain time.Duration
	// Hurry ends the drain at once when it is closed. Default never.
	Hurry <-chan struct{}
	// Logger says what happens. Nobody waits for it. Default slog.Default().
	Logger *slog.Logger
	// Output takes what jobs print, line by line behind the job's name. Lines takes, in its place, a line of JSON for
	// each of them, with the run that printed it. The end of what a run prints, 64 KiB, is kept in the history in any
	// case. One that nobody reads holds up no run: lines are dropped then, and counted. Default nowhere.
	Output, Lines io.Writer
	// OnState hears what a Server does now. Loading and reloading wait for it. Nil: nobody hears.
	OnState func(State)
	// ReloadedOn names, for the log, on what the program calls Reload, such as "SIGHUP". Default "Reload".
	ReloadedOn string
	// Cure words what there is to do about a Refusal, for a program whose users know the options by other names. The
	// empty text leaves the words of this package. Nil: they stay.
	Cure func(*Refusal) string
}

// A State is what a Server does.
type State string

// The states. A server is serving again after each reload, whatever became of it.
const (
	Serving   State = "serving"
	Reloading State = "reloading"
	Draining  State = "draining"
)

// checked are the options with their defaults.
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

// cured words a refusal for the program's users.
func (o Options) cured(err error) error {
	if r, ok := err.(*Refusal); ok && o.Cure != nil {
		r.Cure = cmp.Or(o.Cure(r), r.Cure)
	}
	return err
}

// backend are what is the same of all stores.
func (o Options) backend(role, app string) backend.Options {
	return backend.Options{Role: role, Dir: o.StateDir, Namespace: app, Reclaim: true, Log: o.Logger}
}
