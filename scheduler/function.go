package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/tick"
)

// ErrFunction is wrapped if a program without functions would replace or end a job whose work is a Go function. The
// cause is most likely a manifest under the app of a Go program.
var ErrFunction = errors.New("its work is a Go function of another program")

// isFunction reports whether the work of a registered job is a Go function.
func isFunction(k tick.Job) bool {
	spec, err := job.ParseDefinition(k.Definition)
	return err == nil && spec.Function != nil
}

func errFunction(k tick.Job) error {
	return fmt.Errorf("%w, which runs it: to take it over, run `dibs job forget %s` first", ErrFunction, k.Name)
}

// mayEnd reports whether the server may replace and end registered jobs that are not among its own. A program
// without functions must not end those of another program: their ticks would end without notice.
func (r *registrar) mayEnd(jobs []*Job, known []tick.Job) error {
	r.mu.Lock()
	may := r.functions
	r.mu.Unlock()
	if may {
		return nil
	}
	i := slices.IndexFunc(known, func(k tick.Job) bool { return active(k) && isFunction(k) })
	if i < 0 {
		return nil
	}
	if slices.ContainsFunc(jobs, func(j *Job) bool { return j.Spec.Key() == known[i].Name }) {
		return fmt.Errorf("%s: %s: %w", r.b.Name, known[i].Name, errFunction(known[i]))
	}
	app, _, _ := strings.Cut(known[i].Name, "/")
	return fmt.Errorf("%s: the app %s has the job %s, which these jobs would end: %w; or give these jobs another app",
		r.b.Name, app, known[i].Name, errFunction(known[i]))
}
