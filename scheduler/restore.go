package scheduler

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/tick"
)

// restorer compares what this server loaded with what the store has registered, when a claim or a sweep has found that
// they differ, and after each change of the store's identity (rule T11). So it tells a newer load, which this server
// follows no further, from a store that has forgotten this one: there it registers its jobs again. Only the sweep
// uses it.
type restorer struct {
	*Server
	// begun is the store's epoch when all jobs came into doubt last, agreed the one when none was in doubt any more.
	begun, agreed lease.Epoch
	renewed       bool // entries of other generations are served since the last look
}

// doubt has the next sweep look whether the store has another definition of a job.
func (s *Server) doubt(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubts[e.Spec.Key()] = true
}

// look compares the jobs that are in doubt: all of them if the store is not the same as before. It compares as many as
// it can in a third of a TTL; the next sweep continues.
func (r *restorer) look(ctx context.Context) error {
	if r.loading.Load() > 0 {
		return nil // what the store holds may be newer than the entries, and ours
	}
	ctx, cancel := context.WithTimeout(ctx, r.b.Keeper.Margin().TTL/adoptShare)
	defer cancel()
	names, err := r.doubtful(ctx)
	if err != nil {
		return err
	}
	defer r.share()
	lossy := r.begun == 0 || r.begun != r.agreed
	for some := range slices.Chunk(names, registerBatch) {
		if err := r.compare(ctx, some, lossy); err != nil {
			return err
		}
	}
	r.agreed = r.begun
	return nil
}

// share has those servers share sweeps that have the same jobs in the same generations now.
func (r *restorer) share() {
	if !r.renewed {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sweeper.turns.among(r.app, r.jobs)
	r.renewed = false
}

// doubtful returns the jobs that are in doubt. If there are some, it asks for a turn, only to learn the store's epoch.
func (r *restorer) doubtful(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	some := len(r.doubts) > 0
	r.mu.Unlock()
	if some {
		key := lease.Key(r.app + "@restore").Sweep()
		if _, err := r.b.Keeper.Turn(ctx, lease.Want{Key: key, Holder: r.b.Self, OnHeldBack: r.recorder.heldBack}, r.sweeper.every()); err != nil {
			return nil, fmt.Errorf("ask for the store's epoch: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch := r.b.Keeper.Epoch(); epoch != r.begun {
		for name := range r.jobs {
			r.doubts[name] = true
		}
		r.begun = epoch
	}
	return slices.Collect(maps.Keys(r.doubts)), nil
}

// compare does so with some of the jobs. lossy means that the store may have lost data.
func (r *restorer) compare(ctx context.Context, names []string, lossy bool) error {
	rows, err := r.b.Ticks.Jobs(ctx, tick.JobQuery{Names: names})
	if err != nil {
		return fmt.Errorf("read the registered jobs at %s: %w", r.b.Name, err)
	}
	known := make(map[string]tick.Job, len(rows))
	for _, k := range rows {
		known[k.Name] = k
	}
	var (
		reqs []tick.JobRequest
		lost []*entry
	)
	for _, name := range names {
		r.mu.Lock()
		e := r.jobs[name]
		r.mu.Unlock()
		k, found := known[name]
		ours := found && k.Removed.IsZero() && e != nil && e.is(k.Definition)
		switch {
		case e == nil || e.differs.Load() && !(lossy && ours): // with ours, the store has lost the newer load
		case ours:
			if k.Generation != e.generation || !k.Since.Equal(e.since) || e.differs.Load() {
				r.renew(ctx, e, k)
				r.renewed = true
			}
		// Nobody takes a row away but a loss: a job that is removed keeps its row, which says so.
		case e.is(e.whole.Spec.Definition()) && (!found || e.outlived(k)):
			req, err := r.again(ctx, e, k, found)
			if err != nil {
				return err
			}
			reqs, lost = append(reqs, req), append(lost, e)
			continue
		default:
			r.differs(ctx, e)
		}
		r.settled(name)
	}
	if len(reqs) == 0 {
		return nil
	}
	return r.restore(ctx, reqs, lost)
}

// settled takes a job out of doubt.
func (r *restorer) settled(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.doubts, name)
}

// is reports whether a definition is the one that the entry is of.
func (e *entry) is(definition string) bool { return e.digest == maphash.String(digests, definition) }

// outlived reports whether a row is from before this entry's load: the store went back to an older state, or a server
// that has not loaded again since has restored what it had. A newer load either is of a later time or has a later
// generation.
func (e *entry) outlived(k tick.Job) bool {
	return k.Generation < e.generation && k.Since.Before(e.since) && k.Removed.Before(e.since)
}

// again returns the request that registers a job's definition once more, from the time of its load on: so of several
// loads the latest wins, whoever restores first. Nobody knows which ticks had a run before the store forgot them, so
// they are nobody's.
func (r *restorer) again(ctx context.Context, e *entry, known tick.Job, found bool) (tick.JobRequest, error) {
	req := tick.JobRequest{Name: e.Spec.Key(), Definition: e.whole.Spec.Definition(), Since: e.since}
	if found {
		req.Since = above(e.since, known.Mark)
		return r.redefiner.leave(ctx, known, req)
	}
	now, err := r.b.Keeper.Now(ctx)
	if err != nil {
		return req, err
	}
	req.Of, req.Mark = e.generation-1, now
	if !now.After(e.since) {
		req.Mark = e.since.Add(time.Microsecond)
	}
	return req, nil
}

// restore registers what the store has forgotten.
func (r *restorer) restore(ctx context.Context, reqs []tick.JobRequest, lost []*entry) error {
	rows, err := r.registrar.set(ctx, reqs)
	if err != nil {
		return err
	}
	var failed error
	for i, e := range lost {
		if !stands(reqs[i], rows[i]) { // somebody else was faster
			failed = errors.Join(failed, errContended(reqs[i].Name))
			continue
		}
		r.renew(ctx, e, rows[i])
		r.renewed = true
		r.settled(reqs[i].Name)
		r.recorder.event(ctx, history.Event{Kind: "definition-restored", Job: reqs[i].Name, Reason: fmt.Sprintf(
			"the store had forgotten this job; this server has registered it again; ticks up to %s are not accounted for",
			stamp(rows[i].Mark))})
	}
	return failed
}
