package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/run"
)

// retention is how long history is kept: longer than any catch-up window.
const retention = 90 * 24 * time.Hour

// keptOutputs is how many of a job's runs keep what they printed, the newest ones: at most 64 KiB each, so 63 MiB.
const keptOutputs = 1000

// retainEvery is how often a server deletes what history does not keep.
const retainEvery = 10 * time.Minute

// printed are the jobs whose runs stored an output here since the last cleanup, and how many of the newest runs have
// been looked at.
type printed struct {
	mu   sync.Mutex
	jobs map[string]int
}

func (p *printed) add(job string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs == nil {
		p.jobs = map[string]int{}
	}
	if _, noted := p.jobs[job]; !noted {
		p.jobs[job] = keptOutputs
	}
}

// take returns all jobs; what is not done is given back.
func (p *printed) take() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.jobs
	p.jobs = nil
	return all
}

func (p *printed) giveBack(jobs map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs == nil {
		p.jobs = map[string]int{}
	}
	maps.Copy(p.jobs, jobs) // which may have looked further than a job that was noted since
}

// retain does so while the server runs. If a store fails, the log has one line.
func (s *Server) retain(ctx context.Context) {
	t := time.NewTicker(retainEvery)
	defer t.Stop()
	for failed := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		bounded, cancel := context.WithTimeout(ctx, time.Minute)
		err := s.pruner.retain(bounded, mostRetained)
		cancel()
		if err != nil && ctx.Err() == nil && !failed {
			s.log.Warn("old history could not be pruned; trying again later", "event", "not-pruned", "error", err)
		}
		failed = err != nil
	}
}

// mostRetained bounds the steps that a server takes at a time.
const mostRetained = 10_000

// pruner deletes what history does not keep (rule T16).
type pruner struct {
	b       *Backend
	printed printed
}

// keepOutput is Backend.KeepOutput.
func (p *pruner) keepOutput(ctx context.Context, r run.Record, output []byte) error {
	if err := p.b.History.Output(ctx, r.ID, output); err != nil {
		return err
	}
	p.printed.add(r.Job)
	return nil
}

// retain is Backend.Retain.
func (p *pruner) retain(ctx context.Context, steps int) error {
	if p.b.History == nil {
		return nil
	}
	if err := p.retainNewest(ctx, &steps); err != nil {
		return err
	}
	_ = p.b.Keeper.Sync(ctx) // a clock that has just jumped makes nothing old
	before, total := p.b.passed().Add(-retention-p.b.Keeper.Leapt()), 0
	for more := true; more && steps > 0; steps-- {
		n, again, err := p.b.History.Prune(ctx, before)
		if err != nil {
			return fmt.Errorf("prune history: %w", err)
		}
		total, more = total+n, again
	}
	if total > 0 {
		p.b.log().Debug("old history was pruned", "event", "pruned", "rows", total)
	}
	return nil
}

// retainNewest goes back from each job's newest runs until a step finds nothing.
func (p *pruner) retainNewest(ctx context.Context, steps *int) error {
	jobs := p.printed.take()
	defer func() { p.printed.giveBack(jobs) }()
	for _, job := range slices.Sorted(maps.Keys(jobs)) {
		for n := 1; n > 0; *steps-- {
			if *steps <= 0 {
				return nil
			}
			var err error
			if n, err = p.b.History.PruneOutputs(ctx, job, jobs[job]); err != nil {
				return fmt.Errorf("prune outputs: %w", err)
			}
			jobs[job] += history.Step
		}
		delete(jobs, job)
	}
	return nil
}
