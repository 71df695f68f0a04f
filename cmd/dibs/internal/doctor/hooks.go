package doctor

import (
	"cmp"

	"github.com/dibs-run/dibs/job"
)

// hooks looks for hooks that would tell nobody.
func (s Setting) hooks(spec *job.Spec) (all []Finding) {
	where, longest := s.where(spec), spec.Policy.Deadline
	if spec.Policy.Retries.MaxAttempts <= 1 {
		longest = cmp.Or(longest, spec.Policy.Timeout)
	}
	for i, h := range spec.Hooks {
		if h.Command != nil {
			if err := s.Program(*h.Command); err != nil {
				all = append(all, found(Warning, "program", where, "Install it on this host, or name it by its absolute path.", "The command of its hook %d would not start here: %v. The hook would fail.", i+1, err))
			}
		}
		for _, r := range []*job.Request{h.Request, h.Ping} {
			if r == nil {
				continue
			}
			if err := s.Way(*r); err != nil {
				all = append(all, found(Error, "request", where, "Put the file on this host, or correct the manifest; without it dibs serve refuses the manifest.", "Its hook %d cannot be sent from here: %v.", i+1, err))
			}
		}
		if h.Wants(job.OnTooLong) && longest > 0 && h.TooLong >= longest {
			all = append(all, found(Warning, "hook", where, "Choose a shorter too_long_seconds.", "Its hook %d reports a run as too long after %s, and no run takes longer than %s: the hook never fires.", i+1, h.TooLong, longest))
		}
	}
	return all
}
