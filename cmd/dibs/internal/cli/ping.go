package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/environ"
	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/internal/secret"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
)

const (
	// pingVariable names a dead-man's switch where --ping does not.
	pingVariable = "DIBS_PING"
	// pingAttempt bounds each attempt at a ping, so that there is time for a second one within pingDrain.
	pingAttempt = 4 * time.Second
	// pingDrain is what pings get after the run.
	pingDrain = 10 * time.Second
)

// pings are the dead-man's switches of `dibs run`.
type pings struct {
	hooks     []job.Hook
	variables []string // of the environment, that name them: they are not the command's to see
}

// parsePings reads --ping and DIBS_PING. An address is a secret, and is not quoted.
func (o runOptions) parsePings() (p pings, err error) {
	p.variables = []string{pingVariable}
	from, texts := "--ping", o.pings
	if text := os.Getenv(pingVariable); text != "" {
		_ = environ.Hide(pingVariable) // from commands of our own user; where it cannot be, it is as it was
		if len(texts) == 0 {
			from, texts = pingVariable, []string{text}
		}
	}
	for _, text := range texts {
		if name, ok := strings.CutPrefix(text, "env:"); ok {
			p.variables = append(p.variables, name)
		}
		h, err := onePing(text)
		if err != nil {
			return p, fmt.Errorf("%s: %w", from, err)
		}
		p.hooks = append(p.hooks, h)
	}
	return p, nil
}

// onePing is the hook for a URL, env:NAME or file:/path.
func onePing(text string) (h job.Hook, err error) {
	address := text
	if secret.IsPlace(text) {
		b, err := secret.Read(text)
		if err != nil {
			return h, fmt.Errorf("%s: %w", text, err)
		}
		address = string(b)
	}
	switch {
	case address == "" && text != "":
		return h, fmt.Errorf("%s is empty: write the ping URL into it", text)
	case address == "":
		return h, errors.New("it is empty: give a URL, env:NAME or file:/path, or leave it out")
	case !isWeb(address):
		return h, errors.New("want https://… or http://…, or env:NAME or file:/path that contains such a URL")
	}
	h = job.Hook{On: []job.HookEvent{job.OnStart, job.OnSuccess, job.OnFailure}, Ping: &job.Request{URL: address}, Timeout: pingAttempt}
	return h, hook.Check(&h)
}

// hidden is an environment without what names a switch.
func (p pings) hidden(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(p.variables, name)
	})
}

// pinging tells the switches what happens to the runs of a place.
type pinging struct {
	place *opened
	hooks *hook.Runner // nil: there are no switches
}

func (p pings) begin(place *opened, key lease.Key) pinging {
	if len(p.hooks) == 0 {
		return pinging{}
	}
	h := hook.New(hook.Options{History: place.History, Event: place.Record, Log: place.Log})
	h.SetKey(string(key), p.hooks)
	place.Hooks = h
	return pinging{place, h}
}

// end waits for what is to be told yet: for pingDrain at most, and no longer than until.
func (p pinging) end(until context.Context) {
	if p.hooks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(until, pingDrain)
	defer cancel()
	p.place.FlushHooks(aside.FlushTime)
	p.hooks.Close(ctx)
}
