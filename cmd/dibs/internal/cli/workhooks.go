package cli

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/internal/secret"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/queue"
)

// taskHooks are who is told what happens to the tasks of `dibs work`.
type taskHooks struct {
	texts   []string
	secret  string
	timeout time.Duration
}

const taskHooksHelp = `--hook EVENTS=TARGET reports events of tasks; it may be repeated. EVENTS are one or more of these, joined by commas:

  start     an attempt begins                       success  the task succeeded
  retry     an attempt failed; another one follows  failure  the task failed for good
  crash     its worker has died too often           discard  the worker discarded it
  cancel    it was canceled

TARGET is one of

  https://… http://…   a POST of the facts, as JSON
  ping:https://…       a dead-man's switch, such as healthchecks.io
  env:NAME file:/path  a variable or a file that contains the TARGET
  anything else        a command for /bin/sh; it gets the facts as JSON on standard input, and
                       in DIBS_HOOK, DIBS_HOOK_TASK and other variables

No work waits for a hook. dibs reports each event once in the whole fleet, or not at all if it cannot be delivered.`

// parse makes hooks of the flags.
func (h *taskHooks) parse() (hooks []job.Hook, sign []byte, err error) {
	for _, text := range h.texts {
		one, err := h.one(text)
		if err != nil {
			return nil, nil, usage(fmt.Errorf("--hook: %w", err))
		}
		hooks = append(hooks, one)
	}
	if h.secret != "" {
		if !secret.IsPlace(h.secret) {
			return nil, nil, usage(errors.New("--hook-secret: want env:NAME or file:/path; never the secret itself"))
		}
		if sign, err = secret.Read(h.secret); err == nil && len(sign) == 0 {
			err = errors.New("it is empty")
		}
		if err != nil {
			return nil, nil, usage(fmt.Errorf("--hook-secret: %w", err))
		}
	}
	return hooks, sign, nil
}

// one is a hook of EVENTS=TARGET. What may be a password in TARGET is not quoted.
func (h *taskHooks) one(text string) (one job.Hook, err error) {
	events, target, ok := strings.Cut(text, "=")
	if !ok || target == "" {
		return one, errors.New("want EVENTS=TARGET, such as failure=./alert.sh")
	}
	for _, e := range strings.Split(events, ",") {
		if !slices.Contains(queue.TaskEvents, queue.TaskEvent(e)) {
			return one, fmt.Errorf("%q is no event: want some of %s", e, taskEventNames())
		}
		one.On = append(one.On, job.HookEvent(e))
	}
	one.Timeout = h.timeout
	if secret.IsPlace(target) {
		b, err := secret.Read(target)
		if err == nil && len(b) == 0 {
			err = errors.New("it is empty")
		}
		if err != nil {
			return one, fmt.Errorf("%s: %w", target, err)
		}
		target = string(b)
	}
	address, ping := strings.CutPrefix(target, "ping:")
	switch {
	case ping && !isWeb(address):
		return one, errors.New("after ping: comes an address, https://… or http://…")
	case ping:
		one.Ping = &job.Request{URL: address}
	case strings.HasPrefix(target, "https://") || strings.HasPrefix(target, "http://"):
		if !isWeb(target) {
			return one, errors.New("its address is not a valid one")
		}
		one.Request = &job.Request{URL: target}
	default:
		one.Command = &job.Command{Shell: target}
	}
	return one, hook.Check(&one)
}

func isWeb(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

func taskEventNames() string {
	names := make([]string, len(queue.TaskEvents))
	for i, e := range queue.TaskEvents {
		names[i] = string(e)
	}
	return strings.Join(names, ", ")
}
