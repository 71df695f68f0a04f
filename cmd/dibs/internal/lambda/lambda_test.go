package lambda

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/internal/test/lambdaapi"
)

// One process handles one invocation after the other, whatever becomes of them, and has the time that Lambda gives it.
func TestInvocations(t *testing.T) {
	api := lambdaapi.New(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- New(api.Address()).Serve(ctx, func(ctx context.Context, in Invocation) (any, error) {
			switch string(in.Event) {
			case `"fail"`:
				return nil, &Failure{"Dibs.Failed", errors.New(strings.Repeat("x", 100<<10))}
			case `"odd"`:
				return func() {}, nil // no JSON
			case `"slow"`:
				<-ctx.Done()
				return nil, ctx.Err()
			}
			left := time.Until(in.Deadline)
			return map[string]bool{"minute": left > 50*time.Second && left <= time.Minute}, nil
		})
	}()
	for _, c := range []struct {
		event         string
		timeout       time.Duration
		body, failure string
	}{
		{`{"a":1}`, time.Minute, `{"minute":true}`, ""},
		{`"fail"`, time.Minute, "", "Dibs.Failed"},
		{`"odd"`, time.Minute, "", "Dibs.Error"},
		{`"slow"`, 50 * time.Millisecond, "", "Dibs.Error"},
		{`{"a":2}`, time.Minute, `{"minute":true}`, ""},
	} {
		api.Invoke(c.event, c.timeout)
		if got := api.Wait(); got.Body != c.body || got.Type != c.failure || len(got.Message) > mostMessage {
			t.Errorf("%s: %+v", c.event, got)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("told to end while it waits: %v", err)
	}
}

// Told to end, it answers what it has begun. Without a runtime API it ends with an error, and Lambda starts another.
func TestEnds(t *testing.T) {
	api := lambdaapi.New(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- New(api.Address()).Serve(ctx, func(context.Context, Invocation) (any, error) { stop(); return 1, nil })
	}()
	api.Invoke("{}", time.Minute)
	if got := api.Wait(); got.Body != "1" {
		t.Errorf("%+v", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	api.Break()
	if err := New(api.Address()).Serve(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "500") {
		t.Error(err)
	}
	if err := New("127.0.0.1:1").Serve(t.Context(), nil); err == nil {
		t.Error("it serves nothing")
	}
	if err := New(api.Address()).InitFailed(errors.New("no manifest")); err != nil {
		t.Error(err)
	}
	if got := api.Wait(); got.ID != "init" || got.Message != "no manifest" {
		t.Errorf("%+v", got)
	}
}
