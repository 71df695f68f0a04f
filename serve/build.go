package serve

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/backend"
	"github.com/dibs-run/dibs/internal/hook"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/command"
	"github.com/dibs-run/dibs/scheduler"
)

// prepare makes what the scheduler serves for a job of the manifest; set replaces earlier hooks of the job by its
// own. The job's home is open.
func (s *service) prepare(spec *job.Spec, env []string) (j *scheduler.Job, set func(), err error) {
	if j, err = s.build(spec, env); err != nil {
		return nil, nil, err
	}
	set, err = s.hooksFor(spec, env)
	return j, set, err
}

func (s *service) build(spec *job.Spec, env []string) (*scheduler.Job, error) {
	if !s.dormant(spec) { // others run it; a manual run here is checked when it is asked for
		if err := s.sandboxed(spec); err != nil {
			return nil, err
		}
	}
	target, err := s.target(spec, env)
	if err != nil {
		return nil, err
	}
	when, err := s.when(spec, env)
	if err != nil {
		return nil, err
	}
	dormant := s.dormant(spec)
	if dormant {
		s.log.Info("this job is for other environments: their servers run it", "event", "job-dormant", "job", spec.Key(), "environments", spec.Environments)
	}
	return &scheduler.Job{Spec: *spec, Target: target, Dormant: dormant, When: when, Holder: s.holder(spec, target), Output: s.output(spec)}, nil
}

// sandboxed refuses a job whose sandbox this process is not in. A command is a child of this process, so that it ends
// with its lease; systemd sandboxes only what it starts itself.
func (s *service) sandboxed(spec *job.Spec) error {
	if spec.Command == nil || len(spec.Command.Sandbox) == 0 || s.o.Sandbox == spec.Command.Sandbox.Hash() {
		return nil
	}
	what := "a command of this process would run without it"
	if s.o.Sandbox != "" {
		what = "this unit has another one"
	}
	return &Refusal{App: spec.App, What: fmt.Errorf("job %s %w, and %s", spec.Key(), ErrSandbox, what),
		Cure: "run it by a unit of systemd that gives the sandbox, or remove it from the manifest"}
}

// dormant reports whether a job is for other environments.
func (s *service) dormant(spec *job.Spec) bool {
	return len(spec.Environments) > 0 && !slices.Contains(spec.Environments, s.o.Environment)
}

// holder adds what instant reclaim needs to know about a run (rule L6).
func (s *service) holder(spec *job.Spec, target run.Target) func(lease.Key, string) lease.Holder {
	home := s.homes[spec.Policy.Scope]
	return func(key lease.Key, runID string) lease.Holder {
		h := home.Self
		if spec.Command != nil {
			h.Cgroup = command.CgroupNamed(spec.Key(), key, runID)
			h.Apart = apart(target)
		}
		return h
	}
}

// apart reports whether a target's command runs as another user, and so without the lease's lock.
func apart(t run.Target) bool {
	c, ok := t.(command.Target)
	return ok && c.User != nil
}

// output returns where a job's output goes: a printer that all jobs share, or the log of lines. A printer passes on
// what commands print unchanged. Both streams of a command go to it, and into the history, in their true order; only
// the log tells them apart.
func (s *service) output(spec *job.Spec) func(run.Record) io.WriteCloser {
	home := s.homes[spec.Policy.Scope]
	return func(r run.Record) io.WriteCloser {
		c := &output.Captured{To: s.printer, Foreign: spec.Command == nil, Keep: func(b []byte) {
			if err := home.Keep(r, b); err != nil {
				s.log.Warn("the run's output could not be kept", "run_id", r.ID, "error", err)
			}
		}}
		if !s.bare {
			c.Prefix = []byte(spec.Name + " | ")
		}
		if s.lines != nil {
			c.Log = s.lines.Of(output.OfRun(r)...)
		}
		return c
	}
}

func (s *service) target(spec *job.Spec, env []string) (run.Target, error) {
	switch {
	case spec.Command != nil:
		return s.command(spec, env)
	case spec.Task != nil:
		return s.enqueuing(spec)
	}
	secrets, err := s.secrets.Values(s.signedBy(spec))
	if err != nil {
		return nil, err
	}
	t := hook.Request(spec.Request)
	t.Secrets, t.Name, t.Timeout = secrets, spec.Name, spec.Policy.Timeout
	return t, t.Check()
}

// signedBy returns the references to the secrets that sign a job's requests: the job's own. A job without any whose
// request goes to the very application that was asked, with a signature, for the manifest is signed with that
// signature's secret. Other origins do not learn that there is such a secret.
func (s *service) signedBy(spec *job.Spec) []string {
	if len(spec.Secrets) > 0 || s.secrets.Own == "" || !source.IsAddress(s.from.String()) {
		return spec.Secrets
	}
	from, err := url.Parse(s.from.String())
	to, err2 := url.Parse(spec.Request.URL)
	if err != nil || err2 != nil || !strings.EqualFold(from.Scheme, to.Scheme) || !strings.EqualFold(from.Host, to.Host) {
		return nil
	}
	return []string{s.secrets.Own}
}

// command returns the target of a job that runs a command.
func (s *service) command(spec *job.Spec, env []string) (run.Target, error) {
	c, home := spec.Command, s.homes[spec.Policy.Scope]
	t := command.Target{Args: c.Argv(), Dir: c.Dir, Env: env, Enter: s.inner.Enter, Umask: c.Umask, Nice: c.Nice,
		Leftovers: backend.Leftovers(spec.Policy.Leftovers), LeftoverGrace: spec.Policy.StopGrace,
		OnLeftovers: func(_ int, pids []int) {
			home.Event(context.Background(), history.Event{Kind: "leftovers", Key: spec.Key(), Job: spec.Key(),
				Reason: fmt.Sprintf("the command has ended, but processes that it started still run, so its lease is still held: %v", pids)})
		},
		OnStuck: func(pids []int) {
			home.Event(context.Background(), history.Event{Kind: "leftovers", Key: spec.Key(), Job: spec.Key(),
				Reason: fmt.Sprintf("a run waits for processes of an earlier one, which hang in the kernel and survive SIGKILL: %v", pids)})
		}}
	var err error
	t.ExtraEnv, t.User, err = s.identity(c)
	return t, err
}

// identity returns what a job's command finds in its environment besides that of this process, and the user that it
// runs as.
func (s *service) identity(c *job.Command) (env []string, user *command.User, err error) {
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		env = append(env, name+"="+c.Env[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.EnvFrom)) {
		values, err := s.secrets.Values([]string{c.EnvFrom[name]})
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
