package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

const (
	// registerBatch bounds the definitions that are registered in one request, and registerTime each request.
	registerBatch = 500
	registerTime  = 10 * time.Second
	// registerTries is how often a change is made anew because somebody else changed the definition meanwhile.
	registerTries = 5
	// endTogether is how many definitions that end for good are concluded at a time.
	endTogether = 16
	// endTime bounds how long one of them is concluded. It is not removed then, and the next load goes on.
	endTime = time.Minute
)

// errContended says that others kept registering other definitions.
func errContended(name string) error {
	return fmt.Errorf("register %s: %w: other definitions of it are being registered at the same time", name, lease.ErrUnavailable)
}

// register has the store hold the definitions of the jobs, and none of the app's others. It answers the jobs, as they
// stand in the store, in their order. To change a definition costs no request of its own: what it leaves open is kept
// with it (rule T11).
func (s *Server) register(ctx context.Context, jobs []*Job) ([]tick.Job, error) {
	for try := 1; ; try++ {
		reqs, err := s.registration(ctx, jobs)
		if err != nil {
			return nil, err
		}
		if err := s.check(ctx, jobs); err != nil { // once more: to end definitions has taken a while
			return nil, err
		}
		registered, err := s.set(ctx, reqs)
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

// stands says whether what was requested is registered. If not, the request was made of a definition that is no more.
func stands(r tick.JobRequest, registered tick.Job) bool {
	if r.Remove {
		return registered.Generation == 0 || !registered.Removed.IsZero()
	}
	return registered.Definition == r.Definition && registered.Removed.IsZero()
}

// set sends requests in batches.
func (s *Server) set(ctx context.Context, reqs []tick.JobRequest) (registered []tick.Job, err error) {
	for batch := range slices.Chunk(reqs, registerBatch) {
		bounded, cancel := context.WithTimeout(ctx, registerTime)
		some, err := s.place.Ticks.SetJobs(bounded, batch)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("register the jobs at %s: %w", s.place.Name, err)
		}
		registered = append(registered, some...)
	}
	return registered, nil
}

// registration lists the definitions to set, and the removal of jobs that are no longer there. What is left of
// definitions that end for good is settled first.
func (s *Server) registration(ctx context.Context, jobs []*Job) ([]tick.JobRequest, error) {
	var reqs []tick.JobRequest
	place := map[string]int{}
	for i, j := range jobs {
		place[j.Spec.Key()] = i
		reqs = append(reqs, tick.JobRequest{Name: j.Spec.Key(), Definition: j.Spec.Definition()})
	}
	known, err := s.known(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.mayHave(jobs, known); err != nil {
		return nil, err
	}
	s.awaitClaims(ctx)
	var ended []tick.Job
	for _, k := range known {
		i, stays := place[k.Name]
		switch {
		case !k.Removed.IsZero(), stays && reqs[i].Definition == k.Definition:
		case !stays:
			ended = append(ended, k)
		default:
			reqs[i].Since = above(s.place.passed(), k.Mark)
			if reqs[i], err = s.place.leave(ctx, k, reqs[i]); err != nil {
				return nil, err
			}
		}
	}
	removals, err := s.end(ctx, ended)
	return append(reqs, removals...), err
}

// end concludes the definitions of jobs that are no longer there, and answers the removals that may be made.
func (s *Server) end(ctx context.Context, jobs []tick.Job) (reqs []tick.JobRequest, err error) {
	ended, errs := make([]tick.JobRequest, len(jobs)), make([]error, len(jobs))
	turns := make(chan struct{}, endTogether)
	var all sync.WaitGroup
	for i, k := range jobs {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			ended[i], errs[i] = s.endOne(ctx, k)
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

// endOne does so with one of them. It answers nothing where that takes too long: no job is removed before all of its
// ticks have their outcome.
func (s *Server) endOne(ctx context.Context, k tick.Job) (tick.JobRequest, error) {
	bounded, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	removal, err := s.place.Conclude(bounded, k)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		s.log.Warn("a job is not removed yet, because it has too many ticks without an outcome; the next load continues",
			"event", "removal-delayed", "job", k.Name, "error", err)
		return tick.JobRequest{}, nil
	}
	return removal, err
}

// above is an instant at which a definition can end: above the mark, even where the store's clock has stepped back, so
// that no tick falls between it and the next one.
func above(at, mark time.Time) time.Time {
	if least := mark.Add(2 * time.Microsecond); at.Before(least) {
		return least
	}
	return at
}

// awaitClaims lets fires that are under way claim their ticks, which a new definition would settle as
// missed. One that the store does not answer is not waited for.
func (s *Server) awaitClaims(ctx context.Context) {
	for end := time.NewTimer(s.place.Keeper.Margin().RPCTimeout); s.claiming.Load() > 0; {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
