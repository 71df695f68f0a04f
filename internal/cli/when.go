package cli

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/job"
)

// environmentFlag is the flag by which a server says what it is.
func environmentFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "environment", os.Getenv("DIBS_ENVIRONMENT"), "what this server is, for jobs that are meant for some `ENVIRONMENT`s only\n(default $DIBS_ENVIRONMENT)")
}

// whenTime bounds a job's condition: the tick is claimed meanwhile.
const whenTime = time.Minute

// when asks a job's condition: an exit status of 0 is yes. One that cannot be asked is no, and the
// log says why. It has the environment of commands.
func (s *service) when(spec *job.Spec) func(context.Context) bool {
	if spec.When == nil {
		return nil
	}
	args := spec.When.Args
	if spec.When.Shell != "" {
		args = []string{"/bin/sh", "-c", spec.When.Shell}
	}
	return func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, whenTime)
		defer cancel()
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Env = s.environ()
		// It is no work, and leaves nothing behind: what it started ends with it.
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
		c.WaitDelay = time.Second
		out, err := c.CombinedOutput()
		if err != nil {
			s.log.Info("the job's condition said no", "event", "when", "job", spec.Key(), "error", err, "output", string(out[:min(len(out), 1000)]))
		}
		return err == nil
	}
}
