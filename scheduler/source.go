package scheduler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/tick"
)

// ErrOtherSource is returned for jobs of an application that chose its app by itself, if the app is registered by
// another source as well, or only by another one (rule T14).
var ErrOtherSource = errors.New("the app belongs to another source")

// CheckSource reports whether an application that chose app by itself may have it; known are the registered jobs of
// app, including removed ones. The last registration counts. source is job.Spec.Source; if it is empty, it may.
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

// mayHave reports whether the jobs' sources may have the server's app. A server that is left without jobs ends them
// all, in the name of the source whose jobs it loaded last, and may be refused.
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

// sourceOf returns the source of a registered definition. A definition that cannot be read has none.
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

// DefinitionKeepingSource returns the definition of a job for a caller that named the job, and so accepts its app as
// it is: with the source of the registered one. If none is registered, known is zero.
func DefinitionKeepingSource(spec *job.Spec, known tick.Job) string {
	if known.Name == "" {
		return spec.Definition()
	}
	meant := *spec
	meant.Source = sourceOf(known)
	return meant.Definition()
}
