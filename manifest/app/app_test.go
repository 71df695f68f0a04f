package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/manifest/app"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/webhook"
	"github.com/dibs-run/dibs/store/memory"
)

const newer, older = "the newer secret", "the older secret"

// serving starts an application with jobs that a test decides on, and answers its address.
func serving(t *testing.T, o app.Options, jobs map[string]app.Func) string {
	t.Helper()
	var a *app.App
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.ServeHTTP(w, r) }))
	t.Cleanup(srv.Close)
	o.Name, o.URL, o.Secrets, o.SecretRefs = "shop", srv.URL, [][]byte{[]byte(newer), []byte(older)}, []string{"env:CRON_SECRET"}
	o.Log = slog.New(slog.DiscardHandler)
	a, err := app.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range jobs {
		spec := job.Spec{Name: name, Schedules: []string{"@daily"}, Request: &job.Request{Method: "PUT", Body: `{"a":1}`, Headers: map[string]string{"X-Mine": "yes"}}}
		if err := a.Handle(spec, f); err != nil {
			t.Fatal(err)
		}
	}
	return srv.URL
}

// fetch reads the manifest as dibs does.
func fetch(t *testing.T, address, secret string) ([]job.Spec, error) {
	t.Helper()
	s, err := source.New(address, source.Options{Secrets: func() ([][]byte, error) { return [][]byte{[]byte(secret)}, nil },
		Grants: source.Grants{Secrets: []string{"env:CRON_SECRET"}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Load(t.Context())
	if err != nil {
		return nil, err
	}
	return m.Jobs, nil
}

// send makes one attempt of a job as dibs does.
func send(t *testing.T, spec job.Spec, secret, runID string, n int) (run.Result, string) {
	t.Helper()
	k, err := lease.NewKeeper(lease.Options{Store: memory.New(memory.Options{}).Store().Leases})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	l, err := k.Acquire(t.Context(), lease.Want{Key: "shop/j"})
	if err != nil {
		t.Fatal(err)
	}
	previous := tick.Add(-time.Hour)
	if n == 2 { // history is late then
		previous = time.Time{}
	}
	var out bytes.Buffer
	r := webhook.Target{Method: spec.Request.Method, URL: spec.Request.URL, Headers: spec.Request.Headers, Body: spec.Request.Body,
		Secrets: [][]byte{[]byte(secret)}, Name: spec.Name, Timeout: 20 * time.Second}.Attempt(t.Context(), run.Call{
		Run: run.Record{ID: runID, Job: spec.Key(), Tick: tick, Token: l.Token()}, Attempt: n, Lease: l, IdempotencyKey: "shop/j@t",
		PreviousSuccess: previous, PreviousUnknown: previous.IsZero(), Output: &out})
	return r, out.String()
}

var tick = time.Date(2026, 12, 1, 4, 15, 0, 0, time.UTC)

// What dibs fetches and fires, with either secret, arrives with the facts of its run.
func TestDibsTalksToIt(t *testing.T) {
	var got app.Attempt
	address := serving(t, app.Options{}, map[string]app.Func{"report": func(_ context.Context, a app.Attempt) error { got = a; return nil }})
	for i, secret := range []string{newer, older} {
		specs, err := fetch(t, address, secret)
		if err != nil || len(specs) != 1 || specs[0].Policy.Scope != job.Global || specs[0].Secrets[0] != "env:CRON_SECRET" {
			t.Fatalf("%+v, %v", specs, err)
		}
		id := run.NewID()
		r, _ := send(t, specs[0], secret, id, i+1)
		if r.Outcome != run.Succeeded || r.Status != 200 {
			t.Fatalf("%+v", r)
		}
		if got.Job != "report" || got.RunID != id || got.N != i+1 || !got.Scheduled.Equal(tick) || got.PreviousUnknown != (i == 1) || !got.PreviousUnknown && !got.PreviousSuccess.Equal(tick.Add(-time.Hour)) || got.Token <= 0 ||
			got.IdempotencyKey != "shop/j@t" || time.Since(got.Sent).Abs() > time.Minute || !strings.HasPrefix(got.TraceParent, "00-"+strings.ReplaceAll(id, "-", "")) || string(got.Body) != `{"a":1}` {
			t.Errorf("%+v", got)
		}
	}
	if _, err := fetch(t, address, "no secret of its"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Error(err)
	}
}

// A run that is done is answered again and not done again; one that failed is; one at work is asked again later.
func TestARunIsDoneOnce(t *testing.T) {
	calls, fail := 0, true
	var busy sync.Mutex
	began, end := make(chan struct{}), make(chan struct{})
	address := serving(t, app.Options{}, map[string]app.Func{
		"flaky": func(context.Context, app.Attempt) error {
			if calls++; fail {
				return fmt.Errorf("the printer is on fire\nin room 7")
			}
			return nil
		},
		"slow": func(context.Context, app.Attempt) error {
			busy.Lock()
			defer busy.Unlock()
			close(began)
			<-end
			return nil
		},
		"no":     func(context.Context, app.Attempt) error { return fmt.Errorf("no such month: %w", app.ErrRejected) },
		"panics": func(context.Context, app.Attempt) error { panic("oh") },
	})
	specs, err := fetch(t, address, newer)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]job.Spec{}
	for _, s := range specs {
		by[s.Name] = s
	}
	if r, out := send(t, by["flaky"], newer, "r1", 1); r.Status != 500 || r.Final || out != "the printer is on fire\n" {
		t.Errorf("%+v %q", r, out)
	}
	fail = false
	for n := 2; n < 5; n++ {
		if r, _ := send(t, by["flaky"], newer, "r1", n); r.Outcome != run.Succeeded {
			t.Errorf("%+v", r)
		}
	}
	if calls != 2 {
		t.Errorf("done %d times, want once after a failure", calls)
	}
	if r, out := send(t, by["no"], newer, "r2", 1); r.Status != 422 || !r.Final || out != "no such month: rejected\n" {
		t.Errorf("%+v %q", r, out)
	}
	if r, out := send(t, by["panics"], newer, "r3", 1); r.Status != 500 || r.Final || out != "panic: oh\n" {
		t.Errorf("%+v %q", r, out)
	}
	first := make(chan run.Result)
	go func() {
		r, _ := send(t, by["slow"], newer, "r4", 1)
		first <- r
	}()
	<-began
	if r, _ := send(t, by["slow"], newer, "r4", 2); r.Status != 503 || r.Final || r.After != time.Second {
		t.Errorf("%+v", r)
	}
	close(end)
	if r := <-first; r.Outcome != run.Succeeded {
		t.Errorf("%+v", r)
	}
}

// The handler's context ends when dibs hangs up, and such a run is not remembered as done.
func TestHangingUpEndsTheContext(t *testing.T) {
	ended := make(chan error, 1)
	asking, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	address := serving(t, app.Options{}, map[string]app.Func{"long": func(ctx context.Context, _ app.Attempt) error {
		hangUp()
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}})
	req := signed(t, address+"/cron/long", newer, time.Now())
	req.Header.Set("X-Cron-Run-Id", "r")
	if _, err := http.DefaultClient.Do(req.WithContext(asking)); err == nil {
		t.Error("it was answered")
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func signed(t *testing.T, address, secret string, at time.Time) *http.Request {
	t.Helper()
	req, err := http.NewRequest("POST", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(webhook.SignatureHeader, webhook.Sign([]byte(secret), at, "POST", req.URL.RequestURI(), nil))
	return req
}

// Each check of a signature, in the order of the checks.
func TestVerify(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) string {
		return webhook.Sign([]byte(newer), now.Add(d), "POST", "/cron/j?a=%20&b", []byte("body"))
	}
	good := at(0)
	_, sum, _ := strings.Cut(good, ",")
	for _, c := range []struct {
		name, header string
		which        int
		want         error
	}{
		{"right", good, 0, nil},
		{"in the other order, with more", sum + ", x=1, " + strings.TrimSuffix(good, ","+sum), 0, nil},
		{"the method in small letters", webhook.Sign([]byte(newer), now, "post", "/cron/j?a=%20&b", []byte("body")), 0, nil},
		{"the older secret", webhook.Sign([]byte(older), now, "POST", "/cron/j?a=%20&b", []byte("body")), 1, nil},
		{"300 s old", at(-300 * time.Second), 0, nil}, {"301 s old", at(-301 * time.Second), 0, app.ErrStaleTimestamp},
		{"300 s ahead", at(300 * time.Second), 0, nil}, {"301 s ahead", at(301 * time.Second), 0, app.ErrStaleTimestamp},
		{"none", "", 0, app.ErrMissingSignature},
		{"empty", " ", 0, app.ErrMalformedHeader}, {"no t", sum, 0, app.ErrMalformedHeader}, {"no v1", "t=1800000000", 0, app.ErrMalformedHeader},
		{"a segment without =", good + ",x", 0, app.ErrMalformedHeader}, {"t is no integer", "t=1.8e9," + sum, 0, app.ErrMalformedHeader}, {"t with zeros", strings.Replace(good, "t=", "t=0", 1), 0, app.ErrMalformedHeader},
		{"v1 is short", good[:len(good)-1], 0, app.ErrMalformedHeader}, {"v1 in capitals", strings.ToUpper(good[:5]) + good[5:], 0, app.ErrMalformedHeader}, {"v1 twice", good + "," + sum, 0, app.ErrMalformedHeader},
		{"t beyond all bounds", "t=99999999999999999999," + sum, 0, app.ErrMalformedHeader}, {"t is the least", "t=-999999999999999," + sum, 0, app.ErrStaleTimestamp},
		{"stale and malformed", "t=1,v1=x", 0, app.ErrMalformedHeader}, {"stale and wrong", "t=1," + sum, 0, app.ErrStaleTimestamp},
		{"another's", webhook.Sign([]byte("x"), now, "POST", "/cron/j?a=%20&b", []byte("body")), 0, app.ErrSignatureMismatch},
		{"another method", webhook.Sign([]byte(newer), now, "GET", "/cron/j?a=%20&b", []byte("body")), 0, app.ErrSignatureMismatch},
		{"another path", webhook.Sign([]byte(newer), now, "POST", "/cron/j?a= &b", []byte("body")), 0, app.ErrSignatureMismatch},
		{"another body", webhook.Sign([]byte(newer), now, "POST", "/cron/j?a=%20&b", nil), 0, app.ErrSignatureMismatch},
		{"an empty secret's", webhook.Sign(nil, now, "POST", "/cron/j?a=%20&b", []byte("body")), 0, app.ErrSignatureMismatch},
	} {
		r := httptest.NewRequest("POST", "/cron/j?a=%20&b", nil)
		if c.header != "" {
			r.Header.Set(webhook.SignatureHeader, c.header)
		}
		which, err := app.Verify(r, []byte("body"), now, []byte(newer), []byte(older), nil)
		if which != c.which || !errors.Is(err, c.want) {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, which, err, c.which, c.want)
		}
	}
	r := httptest.NewRequest("POST", "/cron/j?a=%20&b", nil)
	for d, want := range map[time.Duration]error{30 * time.Second: nil, 31 * time.Second: app.ErrStaleTimestamp, -31 * time.Second: app.ErrStaleTimestamp} {
		r.Header.Set(webhook.SignatureHeader, at(d))
		if _, err := app.VerifyWithin(30*time.Second, r, []byte("body"), now, []byte(newer)); !errors.Is(err, want) {
			t.Errorf("%s within 30 s: %v, want %v", d, err, want)
		}
	}
	r = httptest.NewRequest("POST", "/", nil)
	r.Header[webhook.SignatureHeader] = []string{good, good}
	if _, err := app.Verify(r, nil, now, []byte(newer)); !errors.Is(err, app.ErrMalformedHeader) {
		t.Error(err)
	}
}

// What is refused says why, and nothing is done.
func TestRefusals(t *testing.T) {
	address := serving(t, app.Options{}, map[string]app.Func{"j": func(context.Context, app.Attempt) error { t.Error("it was done"); return nil }})
	for want, req := range map[string]*http.Request{
		"401 SignatureMismatch": signed(t, address+"/cron/j", "x", time.Now()),
		"401 StaleTimestamp":    signed(t, address+"/cron/j", newer, time.Now().Add(-time.Hour)),
		"404 no such job":       signed(t, address+"/cron/k", newer, time.Now()),
		"400 no X-Cron-Run-Id":  signed(t, address+"/cron/j", newer, time.Now()),
	} {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if got := fmt.Sprintf("%d %s", res.StatusCode, bytes.TrimSpace(b)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What would not work is refused when it is set up.
func TestSetUp(t *testing.T) {
	right := app.Options{Name: "shop", URL: "https://shop.internal/base", Secrets: [][]byte{[]byte("x")}, SecretRefs: []string{"env:X"}}
	for says, change := range map[string]func(*app.Options){
		"Options.URL":        func(o *app.Options) { o.URL = "shop.internal" },
		"Options.Secrets":    func(o *app.Options) { o.Secrets = nil },
		"Options.Secrets[1]": func(o *app.Options) { o.Secrets = [][]byte{[]byte("x"), nil} },
		"Options.SecretRefs": func(o *app.Options) { o.SecretRefs = nil },
	} {
		o := right
		change(&o)
		if _, err := app.New(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	a, err := app.New(right)
	if err != nil {
		t.Fatal(err)
	}
	for says, spec := range map[string]job.Spec{
		"jobs/0/name":        {Name: "No", Schedules: []string{"@daily"}},
		"jobs/0/schedules":   {Name: "j"},
		"jobs/0/schedules/0": {Name: "j", Schedules: []string{"@reboot"}},
		"jobs/0/timezone":    {Name: "j", Schedules: []string{"@daily"}, Timezone: "Mars/Base"},
	} {
		if err := a.Handle(spec, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	if err := a.Handle(job.Spec{Name: "j", Schedules: []string{"@daily"}}, nil); err != nil || !bytes.Contains(a.Manifest(), []byte(`"https://shop.internal/base/cron/j"`)) {
		t.Errorf("%v, %s", err, a.Manifest())
	}
	if err := a.Handle(job.Spec{Name: "j", Schedules: []string{"@daily"}}, nil); err == nil || !strings.Contains(err.Error(), "names are unique") {
		t.Error(err)
	}
}

// Memory forgets the oldest of those that are done, and none that is at work.
func TestMemoryIsBounded(t *testing.T) {
	m, ctx := app.Memory(2), t.Context()
	if s, _ := m.Begin(ctx, "at work"); s != app.Begun {
		t.Error(s)
	}
	for i := range 5 {
		id := fmt.Sprint(i)
		if s, _ := m.Begin(ctx, id); s != app.Begun {
			t.Error(s)
		}
		_ = m.End(ctx, id, true)
	}
	for id, want := range map[string]app.State{"at work": app.Working, "4": app.Done, "3": app.Done, "2": app.Begun} {
		if s, _ := m.Begin(ctx, id); s != want {
			t.Errorf("%s: %d, want %d", id, s, want)
		}
	}
}
