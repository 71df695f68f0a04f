package serve

import (
	"context"
	"time"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/run/command"
)

// whenTime bounds a job's condition: the tick is claimed meanwhile.
const whenTime = time.Minute

// when returns a job's condition: exit status 0 is yes. If the condition fails, the answer is no, and
// the log says why. If this host cannot start it, there is no answer. It runs as the job's command does: as
// the same user, in the same directory, with the same environment.
func (s *service) when(spec *job.Spec, env []string) (func(context.Context) (bool, error), error) {
	if spec.When == nil {
		return nil, nil
	}
	b := command.Brief{Args: spec.When.Argv(), Env: env, Enter: s.inner.Enter, Timeout: whenTime}
	if c := spec.Command; c != nil {
		var err error
		if b.ExtraEnv, b.User, err = s.identity(c); err != nil {
			return nil, err
		}
		b.Dir, b.Umask, b.Nice = c.Dir, c.Umask, c.Nice
	}
	return func(ctx context.Context) (bool, error) {
		printed, err := b.Run(ctx)
		switch {
		case command.HostFault(err):
			return false, err
		case err != nil:
			s.log.Info("the job's condition (when) was false", "event", "when", "job", spec.Key(), "error", err, "output", printed)
		}
		return err == nil, nil
	}, nil
}
