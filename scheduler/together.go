package scheduler

import (
	"context"
	"slices"
	"sync"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/coalesce"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

const (
	// recentRuns is how many runs of a job are looked at first, by all who look back: mostly they tell. Many
	// jobs ask in one request.
	recentRuns, recentJobs = 10, 500
	// earlierRuns is how many are looked at where these tell nothing, of fewer jobs at a time.
	earlierRuns, earlierJobs = 100, 50
)

// together has what the fires of many jobs ask at one time travel together, one request of a kind at a time: a
// store at the other end of a long way, or a pool of few connections, then serves thousands of jobs that are
// due at one second. One that the store chokes on costs the others nothing.
type together struct {
	once            sync.Once
	recent, earlier *coalesce.Batcher[string, []run.Record]
	jobs            *coalesce.Batcher[string, tick.Job]
	events          *coalesce.Batcher[history.Event, struct{}]
	looks           chan struct{} // places of those who look whether others have a tick
}

// mostLooks is how many ticks are looked at at once before they are claimed. Whoever finds no room in time claims.
const mostLooks = 4

func (p *Backend) batches() *together {
	t := &p.together
	t.once.Do(func() {
		within, boot := p.Keeper.Margin().RPCTimeout, p.Keeper.Boot
		t.recent = coalesce.New(recentJobs, 1, nil, p.latest(recentRuns)).InHalves(within, boot)
		t.earlier = coalesce.New(earlierJobs, 1, nil, p.latest(earlierRuns)).InHalves(within, boot)
		t.jobs = coalesce.New(tick.MostLooked, 1, nil, p.readJobs).InHalves(within, boot)
		t.looks = make(chan struct{}, mostLooks)
		t.events = coalesce.New(recentJobs, 1, nil, p.append).InHalves(within, boot)
	})
	return t
}

// within is the time that one request gets, counted from when it leaves.
func (p *Backend) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), p.Keeper.Margin().RPCTimeout)
}

func (p *Backend) latest(n int) coalesce.Func[string, []run.Record] {
	return func(jobs []string) ([][]run.Record, error) {
		ctx, cancel := p.within()
		defer cancel()
		return p.History.Latest(ctx, jobs, n)
	}
}

// readJobs reads registered jobs; one that is not there is zero.
func (p *Backend) readJobs(names []string) ([]tick.Job, error) {
	ctx, cancel := p.within()
	defer cancel()
	known, err := p.Ticks.Jobs(ctx, tick.JobQuery{Names: slices.Compact(slices.Sorted(slices.Values(names)))})
	if err != nil {
		return nil, err
	}
	of := make(map[string]tick.Job, len(known))
	for _, k := range known {
		of[k.Name] = k
	}
	found := make([]tick.Job, len(names))
	for i, name := range names {
		found[i] = of[name]
	}
	return found, nil
}

func (p *Backend) append(events []history.Event) ([]struct{}, error) {
	ctx, cancel := p.within()
	defer cancel()
	return make([]struct{}, len(events)), p.History.Append(ctx, events)
}
