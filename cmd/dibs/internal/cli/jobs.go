package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/cmd/dibs/internal/environ"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/run/webhook"
	"github.com/dibs-run/dibs/scheduler"
)

// build makes what the scheduler serves of a job of the manifest.
func (s *service) build(spec *job.Spec, env []string) (*scheduler.Job, error) {
	target, err := s.target(spec, env)
	if err != nil {
		return nil, err
	}
	when, err := s.when(spec, env)
	if err != nil {
		return nil, err
	}
	place := s.places[spec.Policy.Scope]
	out, logged := s.outputs()
	dormant := len(spec.Environments) > 0 && !slices.Contains(spec.Environments, s.environment)
	if dormant {
		s.log.Info("this job is for other environments: their servers run it", "event", "job-dormant", "job", spec.Key(), "environments", spec.Environments)
	}
	return &scheduler.Job{Spec: *spec, Target: target, Dormant: dormant, When: when,
		Holder: func(key lease.Key, runID string) lease.Holder {
			h := place.Self
			if spec.Command != nil {
				h.Cgroup = command.CgroupNamed(spec.Key(), key, runID)
				h.Apart = apart(target)
			}
			return h
		},
		Output: func(r run.Record) io.WriteCloser {
			c := &captured{to: out, foreign: spec.Command == nil, keep: func(b []byte) { keepOutput(place, s.log, r, b) }}
			if !s.bare {
				c.prefix = []byte(spec.Name + " | ")
			}
			if logged != nil {
				c.log = logged.of(ofRun(r)...)
			}
			return c
		}}, nil
}

// keepOutput keeps what a run printed, after its release.
func keepOutput(place *opened, log *slog.Logger, r run.Record, b []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), place.Keeper.Margin().RPCTimeout)
	defer cancel()
	if err := place.KeepOutput(ctx, r, b); err != nil {
		log.Warn("the run's output could not be kept", "run_id", r.ID, "error", err)
	}
}

// apart says whether a target's command runs as another user, and so without the lease's lock.
func apart(t run.Target) bool {
	c, ok := t.(command.Target)
	return ok && c.User != nil
}

func (s *service) target(spec *job.Spec, env []string) (run.Target, error) {
	switch {
	case spec.Command != nil:
		return s.command(spec, env)
	case spec.Task != nil:
		return s.enqueuing(spec)
	}
	secrets, err := s.values(s.signedBy(spec))
	if err != nil {
		return nil, err
	}
	t := request(spec.Request)
	t.Secrets, t.Name, t.Timeout = secrets, spec.Name, spec.Policy.Timeout
	return t, t.Check()
}

// signedBy are the references to what signs the requests of a job: its own, else, of an application that was
// asked with a signature and calls itself, the one that it was asked with. Other origins are not told that
// there is such a secret.
func (s *service) signedBy(spec *job.Spec) []string {
	own, _, err := s.references()
	if len(spec.Secrets) > 0 || own == "" || err != nil || !source.IsAddress(s.source) {
		return spec.Secrets
	}
	from, err := url.Parse(s.source)
	to, err2 := url.Parse(spec.Request.URL)
	if err != nil || err2 != nil || !strings.EqualFold(from.Scheme, to.Scheme) || !strings.EqualFold(from.Host, to.Host) {
		return nil
	}
	return []string{own}
}

// request is the target of a request, but for who sends it.
func request(r *job.Request) webhook.Target {
	t := hook.Target(r)
	t.Method, t.Headers, t.Body = r.Method, r.Headers, r.Body
	return t
}

// command is the target of a job that runs one.
func (s *service) command(spec *job.Spec, env []string) (run.Target, error) {
	c := spec.Command
	t := command.Target{Args: c.Argv(), Dir: c.Dir, Env: env, Enter: s.inner.enter, Umask: c.Umask, Nice: c.Nice,
		Leftovers: leftovers(spec.Policy.Leftovers), LeftoverGrace: spec.Policy.StopGrace,
		OnLeftovers: func(pids []int) {
			s.places[spec.Policy.Scope].Event(context.Background(), history.Event{Kind: "leftovers", Key: spec.Key(), Job: spec.Key(),
				Reason: fmt.Sprintf("the command has ended, but processes that it started still run, so its lease is still held: %v", pids)})
		}}
	var err error
	t.ExtraEnv, t.User, err = s.identity(c)
	return t, err
}

// identity is what a job's command finds in its environment beside that of dibs, and whom it runs as.
func (s *service) identity(c *job.Command) (env []string, user *command.User, err error) {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, name+"="+c.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.EnvFrom)) {
		values, err := s.values([]string{c.EnvFrom[name]})
		if err != nil {
			return nil, nil, fmt.Errorf("env_from/%s: %w", name, err)
		}
		env = append(env, name+"="+string(values[0]))
	}
	if c.User == "" && c.Group == "" {
		return env, nil, nil
	}
	user, err = command.LookupUser(c.User, c.Group)
	return env, user, err
}

// secretsOf are a job's references to secrets.
func secretsOf(spec *job.Spec) []string {
	refs := slices.Clone(spec.Secrets)
	if spec.Command != nil {
		refs = append(refs, slices.Sorted(maps.Values(spec.Command.EnvFrom))...)
	}
	return refs
}

// environ is the environment of dibs for commands: without what holds the secrets of --secret, and those that
// jobs name, each of which is for the job that names it. Nor can they be seen any more in what the kernel shows of
// dibs.
func (s *service) environ(specs []*job.Spec) []string {
	var refs []string
	for _, spec := range specs {
		refs = append(refs, secretsOf(spec)...)
	}
	secret := s.variables(refs...)
	_ = environ.Hide(slices.Collect(maps.Keys(secret))...) // where it cannot be, it is as it was
	return slices.DeleteFunc(s.inner.environ(os.Environ()), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return secret[name]
	})
}
