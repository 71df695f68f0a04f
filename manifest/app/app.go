package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest"
)

// Path is where the manifest is served.
const Path = "/.well-known/cron-manifest"

// maxBody bounds how much of a request is read, in bytes.
const maxBody = 4 << 20

// Options configure an App.
type Options struct {
	// Name is the application's, as in a manifest.
	Name string
	// URL is the address at which dibs reaches this application, such as https://shop.internal. If it has a path,
	// that is the prefix of the jobs' paths.
	URL string
	// Secrets are the secrets that a request may be signed with: two while one is being replaced.
	Secrets [][]byte
	// SecretRefs are where dibs finds the secrets, as env:NAME or file:/path. The first one signs.
	SecretRefs []string
	// Once remembers runs. Default: Memory(0), which is enough for one process.
	Once Once
	// Tolerance is how far a signature's time may differ from Now, in either direction. Default, also for less than
	// a second: the constant Tolerance.
	Tolerance time.Duration
	// Now returns this host's time. Default time.Now.
	Now func() time.Time
	// Log takes refusals, and errors outside of the work. Default slog.Default().
	Log *slog.Logger
}

// An Attempt is one try of a run, as dibs sent it.
type Attempt struct {
	// Job is the name of the job. RunID is the id of the run, the same for all its attempts; N counts the attempts
	// from 1.
	Job   string
	RunID string
	N     int
	// Scheduled is the tick, and Sent is when the request was sent. PreviousSuccess is the tick of the latest run
	// that succeeded. It is zero if none of the last 100 did, or if dibs could not find it in time; PreviousUnknown
	// is true in the second case.
	Scheduled, Sent, PreviousSuccess time.Time
	PreviousUnknown                  bool
	// Token grows with each grant of the job: refuse a smaller one where you write.
	Token int64
	// IdempotencyKey stays the same when a tick is run again after a crash.
	IdempotencyKey string
	// TraceParent is the attempt's place in a trace, in the format of W3C Trace Context.
	TraceParent string
	// Body is the body that the manifest declares.
	Body []byte
}

// A Func does the work of a job. ctx ends when dibs hangs up: at the timeout, or when the run is stopped. An error
// is a failure. It is tried again as the job's policy says, or not at all if it wraps ErrRejected. The first line of
// its text is kept with the run.
type Func func(ctx context.Context, a Attempt) error

// ErrRejected is wrapped by the error of a Func if no further attempt would help.
var ErrRejected = errors.New("rejected")

// An App is an http.Handler for the manifest and for the jobs. Register all jobs before it serves; then it is safe
// for concurrent use.
type App struct {
	o         Options
	base      *url.URL
	specs     []job.Spec
	funcs     map[string]Func // by path
	canonical []byte
}

// New makes an App without jobs.
func New(o Options) (*App, error) {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil || base.Hostname() == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" || base.User != nil:
		return nil, errors.New("app: Options.URL: want an absolute http or https address, such as https://shop.internal")
	case len(o.Secrets) == 0:
		return nil, errors.New("app: Options.Secrets: without a secret, nobody could verify dibs's requests")
	}
	if len(o.SecretRefs) == 0 {
		return nil, errors.New("app: Options.SecretRefs: without one dibs would sign nothing; want dibs's name of the secret, such as env:CRON_SECRET")
	}
	for i, s := range o.Secrets {
		if len(s) == 0 {
			return nil, fmt.Errorf("app: Options.Secrets[%d] is empty: anybody could sign with it", i)
		}
	}
	if o.Once == nil {
		o.Once = Memory(0)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Tolerance < time.Second {
		o.Tolerance = Tolerance
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return &App{o: o, base: base, funcs: map[string]Func{}}, nil
}

// Handle registers a job and the function that does its work. The App sets the spec's App, Secrets and Request.URL;
// Request may set method, headers and body. A Policy without Concurrency means version 1's policy with scope global:
// one server of the fleet fires each tick. The error lists everything that is wrong with the manifest.
func (a *App) Handle(spec job.Spec, f Func) error {
	path := strings.TrimSuffix(a.base.Path, "/") + "/cron/" + spec.Name
	request := job.Request{Method: http.MethodPost}
	if spec.Request != nil {
		request = *spec.Request
		request.Method = cmp.Or(request.Method, http.MethodPost)
	}
	at := *a.base
	at.Path, at.RawPath = path, ""
	request.URL = at.String()
	spec.App, spec.Secrets, spec.Request = a.o.Name, a.o.SecretRefs, &request
	spec.Timezone = cmp.Or(spec.Timezone, "UTC")
	if spec.Policy.Concurrency == "" {
		spec.Policy = job.DefaultPolicy(false)
		spec.Policy.Scope = job.Global
	}
	m := manifest.Manifest{App: a.o.Name, Jobs: append(a.specs[:len(a.specs):len(a.specs)], spec)}
	canonical := m.Canonical()
	if _, err := manifest.Load(canonical, "of this application.json"); err != nil {
		return fmt.Errorf("app: job %s: %w", spec.Name, err)
	}
	a.specs, a.canonical, a.funcs[path] = m.Jobs, canonical, f
	return nil
}

// Manifest returns the manifest that is served, in its canonical form.
func (a *App) Manifest() []byte { return a.canonical }

// ServeHTTP serves the manifest, and does the work of jobs.
func (a *App) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the body could not be read, or is too long", http.StatusRequestEntityTooLarge)
		return
	}
	which, err := VerifyWithin(a.o.Tolerance, r, body, a.o.Now(), a.o.Secrets...)
	if err != nil {
		a.o.Log.Warn("a request was refused", "event", "request-refused", "reason", err, "path", r.URL.Path, "from", r.RemoteAddr)
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	if which > 0 {
		a.o.Log.Info("a request was signed with a secret other than the first", "event", "older-secret", "which", which)
	}
	f := a.funcs[r.URL.Path]
	switch {
	case r.Method == http.MethodGet && r.URL.Path == Path && len(a.specs) > 0:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a.canonical)
	case f == nil:
		http.Error(w, "no such job", http.StatusNotFound)
	default:
		a.fire(w, r, f, attemptOf(r, body))
	}
}

// fire does the work of a run, unless it is done or in progress.
func (a *App) fire(w http.ResponseWriter, r *http.Request, f Func, at Attempt) {
	if at.RunID == "" {
		http.Error(w, "no X-Cron-Run-Id", http.StatusBadRequest)
		return
	}
	state, err := a.o.Once.Begin(r.Context(), at.RunID)
	switch {
	case err != nil:
		a.o.Log.Error("could not check whether a run is done", "run_id", at.RunID, "error", err)
		http.Error(w, "could not check whether this run is done", http.StatusServiceUnavailable)
		return
	case state == Working:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "this run is already active", http.StatusServiceUnavailable)
		return
	case state == Done:
		w.Header().Set("X-Duplicate", "true")
		return
	}
	err = work(r.Context(), f, at)
	if ended := a.o.Once.End(context.WithoutCancel(r.Context()), at.RunID, err == nil); ended != nil {
		// The work is done, so that it must not be sent again for this.
		a.o.Log.Error("could not record that a run is done", "run_id", at.RunID, "error", ended)
	}
	switch {
	case err == nil:
		w.WriteHeader(http.StatusOK)
		return
	case errors.Is(err, ErrRejected):
		w.WriteHeader(http.StatusUnprocessableEntity)
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = w.Write(first(err))
}

// work calls the function; a panic is a failure.
func work(ctx context.Context, f Func, a Attempt) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f(ctx, a)
}

// attemptOf reads the facts of an attempt. They are not signed: the signature covers the address and the body, so
// trust them only as far as you trust TLS.
func attemptOf(r *http.Request, body []byte) Attempt {
	h := r.Header
	instant := func(name string) (t time.Time) { // what is none is not known
		if at, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil {
			t = time.Unix(at, 0).UTC()
		}
		return t
	}
	n, _ := strconv.Atoi(h.Get("X-Cron-Attempt"))
	token, _ := strconv.ParseInt(h.Get("Dibs-Token"), 10, 64)
	return Attempt{Job: h.Get("X-Cron-Schedule-Name"), RunID: h.Get("X-Cron-Run-Id"), N: n,
		Scheduled: instant("X-Cron-Fire-Time"), Sent: instant("X-Cron-Fire-Time-Actual"), PreviousSuccess: instant("X-Cron-Previous-Success-Time"),
		PreviousUnknown: h.Get("Dibs-Previous-Success") == "unknown",
		Token:           token, IdempotencyKey: h.Get("Idempotency-Key"), TraceParent: h.Get("traceparent"), Body: body}
}
