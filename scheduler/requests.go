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
	// recentRuns is how many runs of a job every look back reads first: these are mostly enough. Many jobs share one
	// request.
	recentRuns, recentJobs = 10, 500
	// earlierRuns is how many it reads if these are not enough, for fewer jobs at a time.
	earlierRuns, earlierJobs = 100, 50
)

// requests sends together what the fires of many jobs ask at the same time, one request of a kind at a time. A store
// that is far away, or a pool of few connections, then serves thousands of jobs that are due at one second. A
// request on which the store gets stuck does not delay the others.
type requests struct {
	b               *Backend
	once            sync.Once
	recent, earlier *coalesce.Batcher[string, []run.Record]
	jobs            *coalesce.Batcher[string, tick.Job]
	events          *coalesce.Batcher[history.Event, struct{}]
	scans           chan struct{} // room for those who look whether others have a tick
}

// mostScans is how many ticks are looked at concurrently before they are claimed. A fire that finds no room in time
// claims.
const mostScans = 4

// open makes them ready at their first use.
func (q *requests) open() *requests {
	q.once.Do(func() {
		within, boot := q.b.Keeper.Margin().RPCTimeout, q.b.Keeper.Boot
		q.recent = coalesce.New(recentJobs, 1, nil, q.latest(recentRuns)).InHalves(within, boot)
		q.earlier = coalesce.New(earlierJobs, 1, nil, q.latest(earlierRuns)).InHalves(within, boot)
		q.jobs = coalesce.New(tick.MaxRows, 1, nil, q.readJobs).InHalves(within, boot)
		q.scans = make(chan struct{}, mostScans)
		q.events = coalesce.New(recentJobs, 1, nil, q.append).InHalves(within, boot)
	})
	return q
}

// within returns the time that one request gets, counted from when it is sent.
func (q *requests) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), q.b.Keeper.Margin().RPCTimeout)
}

func (q *requests) latest(n int) coalesce.Func[string, []run.Record] {
	return func(jobs []string) ([][]run.Record, error) {
		ctx, cancel := q.within()
		defer cancel()
		return q.b.History.Latest(ctx, jobs, n)
	}
}

// readJobs reads registered jobs; one that does not exist is zero.
func (q *requests) readJobs(names []string) ([]tick.Job, error) {
	ctx, cancel := q.within()
	defer cancel()
	known, err := q.b.Ticks.Jobs(ctx, tick.JobQuery{Names: slices.Compact(slices.Sorted(slices.Values(names)))})
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

func (q *requests) append(events []history.Event) ([]struct{}, error) {
	ctx, cancel := q.within()
	defer cancel()
	return make([]struct{}, len(events)), q.b.History.Append(ctx, events)
}
