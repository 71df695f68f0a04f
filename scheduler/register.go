package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/tick"
)

const (
	// registerBatch bounds the definitions that are registered in one request, and registerTime each request.
	registerBatch = 500
	registerTime  = 10 * time.Second
	// registerTries is how often a change is made again because another process changed the definition meanwhile.
	registerTries = 5
	// endTogether is how many definitions that end for good are concluded concurrently.
	endTogether = 16
	// endTime bounds how long one of them is concluded. If that is too short, it is not removed, and the next load
	// continues.
	endTime = time.Minute
)

// registrar registers a server's jobs, and ends those that are no longer there (rules T11 and T14).
type registrar struct {
	*Server
	// sources are those of the jobs that were loaded last, if there were any.
	sources []string
	// functions means that jobs of functions were loaded here, so that this program may end such jobs.
	functions bool
}

// register makes the store hold the definitions of the jobs, and no others of the app. It returns the jobs as they
// are in the store, in their order. Changing a definition needs no request of its own: what it leaves open is kept
// with it (rule T11).
func (r *registrar) register(ctx context.Context, jobs []*Job) ([]tick.Job, error) {
	for try := 1; ; try++ {
		reqs, err := r.registration(ctx, jobs)
		if err != nil {
			return nil, err
		}
		if err := r.check(ctx, jobs); err != nil { // once more: to end definitions has taken a while
			return nil, err
		}
		registered, err := r.set(ctx, reqs)
		if err != nil {
			return nil, err
		}
		i := 0
		for i < len(reqs) && stands(reqs[i], registered[i]) {
			i++
		}
		switch {
		case i == len(reqs):
			return registered[:len(jobs)], nil
		case try == registerTries:
			return nil, errContended(reqs[i].Name)
		}
	}
}

// set sends requests in batches.
func (r *registrar) set(ctx context.Context, reqs []tick.JobRequest) (registered []tick.Job, err error) {
	for batch := range slices.Chunk(reqs, registerBatch) {
		bounded, cancel := context.WithTimeout(ctx, registerTime)
		some, err := r.b.Ticks.SetJobs(bounded, batch)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("register the jobs at %s: %w", r.b.Name, err)
		}
		registered = append(registered, some...)
	}
	return registered, nil
}

// registration lists the definitions to set, and the removal of jobs that no longer exist. What is left of
// definitions that end for good is settled first.
func (r *registrar) registration(ctx context.Context, jobs []*Job) ([]tick.JobRequest, error) {
	var reqs []tick.JobRequest
	index := map[string]int{}
	for i, j := range jobs {
		index[j.Spec.Key()] = i
		reqs = append(reqs, tick.JobRequest{Name: j.Spec.Key(), Definition: j.Spec.Definition()})
	}
	known, err := r.known(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.mayHave(jobs, known); err != nil {
		return nil, err
	}
	r.awaitClaims(ctx)
	var ended []tick.Job
	for _, k := range known {
		i, stays := index[k.Name]
		switch {
		case !k.Removed.IsZero(), stays && reqs[i].Definition == k.Definition:
		case !stays:
			ended = append(ended, k)
		default:
			reqs[i].Since = above(r.b.passed(), k.Mark)
			if reqs[i], err = r.redefiner.leave(ctx, k, reqs[i]); err != nil {
				return nil, err
			}
		}
	}
	removals, err := r.end(ctx, ended)
	return append(reqs, removals...), err
}

// end concludes the definitions of jobs that no longer exist, and returns the removals that may be made.
func (r *registrar) end(ctx context.Context, jobs []tick.Job) (reqs []tick.JobRequest, err error) {
	ended, errs := make([]tick.JobRequest, len(jobs)), make([]error, len(jobs))
	turns := make(chan struct{}, endTogether)
	var all sync.WaitGroup
	for i, k := range jobs {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			ended[i], errs[i] = r.endOne(ctx, k)
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, err
		}
		if ended[i].Remove {
			reqs = append(reqs, ended[i])
		}
	}
	return reqs, nil
}

// endOne does so with one of them. It returns nothing if that takes too long: no job is removed before all of its
// ticks have their outcome.
func (r *registrar) endOne(ctx context.Context, k tick.Job) (tick.JobRequest, error) {
	bounded, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	removal, err := r.concluder.conclude(bounded, k)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		r.log.Warn("a job is not removed yet, because it has too many ticks without an outcome; the next load continues",
			"event", "removal-delayed", "job", k.Name, "error", err)
		return tick.JobRequest{}, nil
	}
	return removal, err
}

// awaitClaims lets fires in progress claim their ticks, which a new definition would settle as missed. It does not
// wait for claims that the store does not answer.
func (r *registrar) awaitClaims(ctx context.Context) {
	for end := time.NewTimer(r.b.Keeper.Margin().RPCTimeout); r.claiming.Load() > 0; {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// known returns the jobs that are registered in the store.
func (r *registrar) known(ctx context.Context) ([]tick.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, registerTime)
	defer cancel()
	known, err := tick.Registry(ctx, r.b.Ticks, r.app+"/")
	if err != nil {
		return nil, fmt.Errorf("read the registered jobs at %s: %w", r.b.Name, err)
	}
	return known, nil
}

// check reports whether Prepare can succeed. It changes nothing.
func (r *registrar) check(ctx context.Context, jobs []*Job) error {
	for _, j := range jobs {
		if err := j.Check(); err != nil {
			return err
		}
	}
	known, err := r.known(ctx)
	if err != nil {
		return err
	}
	return r.mayHave(jobs, known)
}
