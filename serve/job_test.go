package serve_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/serve"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/memory"
	"github.com/dibs-run/dibs/tick"
)

// fired fires a job as a process that ends then would.
func fired(t *testing.T, st *store.Store, path, name string, o serve.Options, f serve.Fire) (serve.Fired, error) {
	t.Helper()
	o.Logger = quiet
	j, err := serve.Find(t.Context(), serve.Store{Opened: st}, serve.Manifest{From: path}, name, o)
	if err != nil {
		return serve.Fired{}, err
	}
	defer j.Close(t.Context())
	got, err := j.Trigger(t.Context(), f)
	j.Tidy(t.Context())
	return got, err
}

// Of all that fire a tick one runs it; what is not due, or not for here, is not run; and a run by hand uses up no
// tick. Holds: promise 8.
func TestAProgramFiresOneJob(t *testing.T) {
	st := memory.New(memory.Options{}).Store()
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	manifest(t, path, "{name: hello, schedule: '0 * * * *', command: [echo, good morning], policy: {starting_deadline_seconds: 7200}}",
		"{name: there, schedule: '* * * * *', environments: [production], command: [echo]}")
	at := time.Now().Truncate(time.Hour)
	var out text
	won, err := fired(t, st, path, "shop/hello", serve.Options{Output: &out}, serve.Fire{Tick: at})
	if err != nil || won.Answer.Status != tick.Won || won.Outcome != run.Succeeded || !won.Tick.Equal(at) {
		t.Fatalf("%+v, %v", won, err)
	}
	if out.String() != "good morning\n" {
		t.Errorf("it prints %q", out.String())
	}
	lost, err := fired(t, st, path, "shop.hello", serve.Options{}, serve.Fire{Tick: at})
	if err != nil || lost.Answer.Status == tick.Won || lost.Answer.Tick.RunID != won.Run.ID || lost.Run.ID != "" {
		t.Errorf("the second: %+v, %v", lost, err)
	}
	by, err := fired(t, st, path, "shop/hello", serve.Options{}, serve.Fire{Manual: &serve.Manual{By: "Ann", Why: "T-123"}})
	if err != nil || by.Outcome != run.Succeeded || !by.Tick.IsZero() || by.Run.Cause == nil || by.Run.Cause.By != "Ann" {
		t.Errorf("by hand: %+v, %v", by, err)
	}
	if _, err := fired(t, st, path, "shop/hello", serve.Options{}, serve.Fire{Tick: at.Add(-24 * time.Hour)}); !errors.Is(err, serve.ErrNotDue) {
		t.Errorf("a tick of yesterday: %v", err)
	}
	if _, err := fired(t, st, path, "shop/hello", serve.Options{}, serve.Fire{Tick: at.Add(time.Second), Called: "--tick now"}); !errors.Is(err, serve.ErrNotDue) || !strings.Contains(err.Error(), "--tick now is no tick") {
		t.Errorf("no tick: %v", err)
	}
	late := time.Now().Add(-30 * 24 * time.Hour)
	if got, err := fired(t, st, path, "shop/hello", serve.Options{}, serve.Fire{At: late}); !errors.Is(err, serve.ErrNotDue) {
		t.Errorf("a platform that fired a month ago: %+v, %v", got, err)
	}
	if _, err := fired(t, st, path, "shop/there", serve.Options{Environment: "staging"}, serve.Fire{}); !errors.Is(err, serve.ErrNotHere) {
		t.Errorf("elsewhere: %v", err)
	}
	var r *serve.Refusal
	if _, err := fired(t, st, path, "shop/none", serve.Options{}, serve.Fire{}); !errors.As(err, &r) || !strings.Contains(err.Error(), "shop.hello") {
		t.Errorf("no such job: %v", err)
	}
	runs, err := st.History.Runs(t.Context(), history.Query{Job: "shop/hello", Limit: 10})
	if err != nil || len(runs) != 2 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}
