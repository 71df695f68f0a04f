package scheduler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/tick"
)

// ErrOtherSource is returned for jobs of an application that chose its app by itself, where the app is registered,
// and not by that application alone (rule T14).
var ErrOtherSource = errors.New("the app belongs to another source")

// CheckSource says whether an application that chose app by itself may have it, where known are the registered jobs of
// app, removed ones included. The last registration counts. Source is that of job.Spec; empty: it may.
func CheckSource(app, source string, known []tick.Job) error {
	if source == "" {
		return nil
	}
	count := known
	if slices.ContainsFunc(known, active) {
		count = slices.DeleteFunc(slices.Clone(known), func(k tick.Job) bool { return !active(k) })
	}
	for _, k := range count {
		if by := sourceOf(k); by != source {
			return fmt.Errorf("%w: no --app allows %s to have the app %q, and %s is registered %s",
				ErrOtherSource, source, app, k.Name, registeredBy(by))
		}
	}
	return nil
}

// mayHave says whether the jobs' sources may have the server's app. A server that is left without jobs ends them all,
// in the name of the source whose jobs were last to be loaded, and may have been refused.
func (r *registrar) mayHave(jobs []*Job, known []tick.Job) error {
	r.mu.Lock()
	if len(jobs) > 0 {
		r.sources = sourcesOf(jobs)
	}
	r.functions = r.functions || slices.ContainsFunc(jobs, func(j *Job) bool { return j.Spec.Function != nil })
	sources := r.sources
	r.mu.Unlock()
	for _, source := range sources {
		if err := CheckSource(r.app, source, known); err != nil {
			return fmt.Errorf("%s: %w", r.b.Name, err)
		}
	}
	return r.mayEnd(jobs, known)
}

func sourcesOf(jobs []*Job) (all []string) {
	for _, j := range jobs {
		all = append(all, j.Spec.Source)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func active(k tick.Job) bool { return k.Removed.IsZero() }

// sourceOf is the source of a registered definition. One that cannot be read is nobody's.
func sourceOf(k tick.Job) string {
	spec, err := job.ParseDefinition(k.Definition)
	if err != nil {
		return ""
	}
	return spec.Source
}

func registeredBy(source string) string {
	if source == "" {
		return "by the operator"
	}
	return fmt.Sprintf("by %q", source)
}

// DefinitionBeside is the definition of a job for somebody who named the job, and so takes its app as it is: with the
// source of the registered one. Where none is, known is zero.
func DefinitionBeside(spec *job.Spec, known tick.Job) string {
	if known.Name == "" {
		return spec.Definition()
	}
	meant := *spec
	meant.Source = sourceOf(known)
	return meant.Definition()
}
