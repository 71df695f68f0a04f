package command

import (
	"fmt"
	"os"
	"path"
	"strings"
	"sync/atomic"

	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/internal/guardian/cgroup"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

// scopes is what UseScopes was given; nil: nothing.
var scopes atomic.Pointer[scoped]

type scoped struct {
	Scopes
	// divided says that a scope can be divided: then a run has a control group of its own in it, for its
	// command alone.
	divided bool
}

// UseScopes makes each command that is started from now on begin in a scope of s, together with its guardian and
// warden. It tries s once with a guardian that starts nothing; if that fails, it returns the reason and changes
// nothing. Call it before the lease.Holder of the first run is made. With nil, commands begin in this process's own
// control group again.
func UseScopes(s Scopes) error {
	if s == nil {
		scopes.Store(nil)
		return nil
	}
	probe := Spec{Args: []string{"probe"}, RunID: run.NewID(), Env: os.Environ()}
	if !guardian.Ready() {
		return probe.check()
	}
	p, err := probe.guard("/", "")
	if err != nil {
		return err
	}
	defer p.abandon()
	if err := p.enter(s, probe.name(), probe.RunID); err != nil {
		return err
	}
	scopes.Store(&scoped{s, cgroup.Usable(s.Dir(probe.name(), probe.RunID))})
	return nil
}

// cgroup is the path of a run's control group in its scope.
func (s *scoped) cgroup(name string, key lease.Key, runID string) string {
	if !s.divided || !cgroup.Wanted(runID) {
		return ""
	}
	return s.Dir(name, runID) + "/" + cgroup.Name(bound(key, runID))
}

// promised reports whether a record's control group is in a scope. Such a group was named before there was the
// scope, which the service manager may then not have made: that the group is absent proves less than where dibs
// makes it.
func promised(group string) bool {
	scope := path.Base(path.Dir(group))
	return strings.HasPrefix(scope, "dibs-") && strings.HasSuffix(scope, ".scope")
}

// guarded starts the guards of a run in a scope if they are to be in one, and where they are to be, but cannot
// get there in time, as without scopes: with new ones, so that nobody is moved any more once the command runs.
func (s Spec) guarded(path string) (*Process, error) {
	to := scopes.Load()
	if to == nil {
		return s.guard(path, CgroupFor(s.Key, s.RunID))
	}
	p, err := s.guard(path, to.cgroup(s.name(), s.Key, s.RunID))
	if err != nil {
		return nil, err
	}
	err = p.enter(to, s.name(), s.RunID)
	if err == nil {
		return p, nil
	}
	p.killGuards() // rather than have them say into the command's output that they were given up
	p.abandon()
	return s.guard(path, cgroup.For(bound(s.Key, s.RunID)))
}

// enter moves guardian and warden into a scope, while the guardian waits.
func (p *Process) enter(s Scopes, name, runID string) error {
	m, err := p.first(0)
	switch {
	case err != nil:
		return fmt.Errorf("the guardian does not answer: %w", err)
	case m.Kind != guardian.Waiting:
		return fmt.Errorf("there is no guardian: %w", errGuardianGone)
	}
	p.guardian = helperOf(int(m.Guardian))
	return s.Start(name, runID, p.warden.pid, int(m.Guardian))
}

// name is what the run is called.
func (s Spec) name() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Key != "":
		return string(s.Key)
	}
	return path.Base(s.Args[0])
}
