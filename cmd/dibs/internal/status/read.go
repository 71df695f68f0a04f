package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dibs-run/dibs/cmd/dibs/internal/explain"
	"github.com/dibs-run/dibs/fleet"
	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// Facts are what a store says of its fleet.
type Facts struct {
	Now time.Time
	TTL time.Duration
	// HoldUntil is until when the store grants nothing.
	HoldUntil time.Time
	Census    fleet.Census
	Jobs      []Job // registered, and not removed
	Removed   map[string]time.Time
	// Copies are the jobs of hosts that copy their own to this store, under the names of their copies.
	Copies []Job
	// Held are the live leases but those of dibs itself; those of runs are among them.
	// MoreHeld: there are others.
	Held     []lease.Record
	MoreHeld bool
	// Ticks and Runs are those of the last day, the latest first; whole from From on. If that is not the whole day,
	// Latest has the last ticks of the jobs that have not ended since From.
	Ticks  []tick.Tick
	Runs   []run.Record
	From   time.Time
	Latest []tick.Tick
	// Hosts has the names of the hosts that copy their own jobs to this store, by their ids.
	Hosts map[string]string
	// Unsettled are the ticks that nobody has claimed in time, and that are not recorded as missed yet.
	Unsettled []tick.Tick
	// Late are ticks that are due, that nobody has claimed, and that somebody may still claim.
	Late    []tick.Spot
	Queues  []driver.SubQueue
	Workers []driver.Process
	Pauses  []driver.Pause
	// Cut says, in words, what there was too much of to look at.
	Cut []string
}

// A Job is a registered job. Definition is nil, and Err says why, if it cannot be read here.
type Job struct {
	tick.Job
	*explain.Definition
	Err error
}

// What is read at most. A step beyond that is left out, and Facts.Cut says so.
const (
	Day       = 24 * time.Hour
	mostRows  = 5_000  // ticks, and as many runs
	mostHeld  = 10_000 // leases: what lease.Store.List returns at most
	mostRuns  = 1000   // of a job that is asked for alone
	mostAlone = 100    // jobs that are asked for one by one
	mostLast  = 5      // ticks of a job that has not ended for long: the last ones may run, or be skipped
	mostTicks = 200_000
)

// Patience is how long after the instant at which it should have begun an unclaimed tick is late by default.
const Patience = 15 * time.Second

// Options say what to read.
type Options struct {
	// Jobs are the names of the only jobs and keys that matter, few of them; none: all. Of these the latest ticks and
	// runs are read, however old they are, and no queue.
	Jobs []string
	// Patience is that of a late tick; 0: the default.
	Patience time.Duration
	// Lasts has the last success looked for of the jobs that have not had one within the last day: in their last five
	// ticks, and in the last 100 of some of them.
	Lasts bool
}

// ErrSlow is the error of a read that took too long, from a store that answers nevertheless.
var ErrSlow = errors.New("the store answers, but is slow or far away")

// alive is how long a store has to answer one question, once a read has taken too long. early is how long before the
// end of a context a client may give up because of it.
const (
	alive = 2 * time.Second
	early = 100 * time.Millisecond
)

// Within has read end after d. If the store answers then, the error wraps ErrSlow rather than lease.ErrUnavailable.
func Within(ctx context.Context, d time.Duration, k *lease.Keeper, read func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := read(bounded)
	if by, _ := bounded.Deadline(); !errors.Is(err, lease.ErrUnavailable) || ctx.Err() != nil || time.Until(by) > early {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, alive)
	defer cancel()
	if k.Sync(ctx) != nil {
		return err
	}
	return fmt.Errorf("%w: it did not tell everything within %s", ErrSlow, d.Round(100*time.Millisecond))
}

// Read gathers the facts. The error wraps lease.ErrUnavailable if the store does not answer.
func Read(ctx context.Context, b *scheduler.Backend, s *store.Store, o Options) (f Facts, err error) {
	if f.Now, err = b.Keeper.Now(ctx); err != nil {
		return f, err
	}
	f.TTL, f.HoldUntil = b.Keeper.Margin().TTL, s.Properties.HoldUntil
	o.Patience = cmp.Or(o.Patience, Patience)
	r := reader{ctx, b, s, o, &f, &sync.Mutex{}, map[string][]tick.Tick{}}
	if !s.Ticked() {
		return f, together(r.leases, r.census, r.queues)
	}
	// The leases come before the runs: a run that ends in between has ended, and has not lost its lease. The jobs come
	// before the ticks: what is settled in between is above the mark that was read, and has its rows.
	if err := together(r.leases, r.census, r.queues, r.jobs); err != nil {
		return f, err
	}
	if err := together(r.ticks, r.runs); err != nil {
		return f, err
	}
	return f, r.rest()
}

// together takes some steps at once: a store that is far away is not asked for one thing after the other. Its error is
// the first one in their order, but a refusal before a silence.
func together(steps ...func() error) error {
	errs := make([]error, len(steps))
	var all sync.WaitGroup
	for i, step := range steps {
		all.Go(func() { errs[i] = step() })
	}
	all.Wait()
	slices.SortStableFunc(errs, func(a, b error) int { return cmp.Compare(weight(a), weight(b)) })
	return errs[0]
}

func weight(err error) int {
	switch {
	case err == nil:
		return 2
	case errors.Is(err, lease.ErrUnavailable):
		return 1
	}
	return 0
}

type reader struct {
	ctx context.Context
	b   *scheduler.Backend
	s   *store.Store
	o   Options
	f   *Facts
	mu  *sync.Mutex // of f.Cut; each other field has one writer
	// last has the ticks of f.Latest by job, and each job that was asked for.
	last map[string][]tick.Tick
}

func (r reader) census() (err error) {
	if r.s.Fleet != nil {
		if r.f.Census, err = fleet.Read(r.ctx, r.s.Fleet, r.s.Leases); err != nil {
			return fmt.Errorf("read which servers and workers there are: %w", err)
		}
	}
	return nil
}

func (r reader) leases() error {
	if len(r.o.Jobs) > 0 {
		return r.leasesOf(r.o.Jobs)
	}
	reply, err := r.s.Leases.List(r.ctx, "", false)
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	for _, a := range reply.Answers {
		if k := a.Record.Key; a.Record.Live(reply.Now) && (!k.Internal() || k.Once() && a.Record.Holder.RunID != "") {
			r.f.Held = append(r.f.Held, a.Record)
		}
	}
	if r.f.MoreHeld = len(reply.Answers) >= mostHeld; r.f.MoreHeld {
		r.cut("only the first %d leases", mostHeld)
	}
	return nil
}

// leasesOf reads the leases of some keys, and those of runs that share their key.
func (r reader) leasesOf(names []string) error {
	beside, err := r.b.Keeper.Unshared(r.ctx)
	if err != nil {
		return err
	}
	for _, h := range beside {
		if h.RunID != "" {
			r.f.Held = append(r.f.Held, lease.Record{Key: lease.OnceKey(), Holder: h})
		}
	}
	for _, name := range names {
		if ofHost(name) {
			continue
		}
		key, err := lease.ParseKey(name)
		if err != nil {
			return err
		}
		now, l, err := r.b.Keeper.Read(r.ctx, key)
		if err != nil {
			return err
		}
		if l.Live(now) {
			r.f.Held = append(r.f.Held, l)
		}
	}
	return nil
}

func (r reader) queues() (err error) {
	q := r.s.Tasks
	if q == nil || len(r.o.Jobs) > 0 {
		return nil
	}
	if r.f.Queues, err = q.Queues(r.ctx); err == nil {
		if r.f.Workers, err = q.Workers(r.ctx); err == nil {
			r.f.Pauses, err = q.Pauses(r.ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("read the queues: %w", err)
	}
	return nil
}

func (r reader) jobs() error {
	var known []tick.Job
	var err error
	if len(r.o.Jobs) > 0 {
		known, err = r.b.Ticks.Jobs(r.ctx, tick.JobQuery{Names: r.o.Jobs})
	} else {
		known, err = tick.Registry(r.ctx, r.b.Ticks, "")
	}
	if err != nil {
		return fmt.Errorf("read the registered jobs: %w", err)
	}
	r.f.Removed = map[string]time.Time{}
	for _, k := range mirror.Own(known) {
		if !k.Removed.IsZero() {
			r.f.Removed[k.Name] = k.Removed
			continue
		}
		d, err := explain.Define(k)
		r.f.Jobs = append(r.f.Jobs, Job{k, d, err})
	}
	if len(r.o.Jobs) > 0 && !slices.ContainsFunc(r.o.Jobs, ofHost) {
		return nil
	}
	hosts, err := mirror.Hosts(r.ctx, r.b)
	if err != nil {
		return err
	}
	r.f.Hosts = map[string]string{}
	for _, h := range hosts {
		r.f.Hosts[h.ID] = h.Name
		for _, j := range h.Jobs {
			j.Name = mirror.On(j.Name, h.ID)
			if !j.Removed.IsZero() {
				r.f.Removed[j.Name] = j.Removed
				continue
			}
			d, err := explain.Define(j)
			r.f.Copies = append(r.f.Copies, Job{j, d, err})
		}
	}
	return nil
}

func (r reader) ticks() (err error) {
	if r.f.Ticks, err = ofLastDay(r, r.b.History.Ticks); err != nil {
		return fmt.Errorf("read the latest ticks: %w", err)
	}
	return nil
}

func (r reader) runs() (err error) {
	if r.f.Runs, err = ofLastDay(r, r.b.History.Runs); err != nil {
		return fmt.Errorf("read the latest runs: %w", err)
	}
	return nil
}

// ofLastDay reads the rows of the last day or, of some jobs, the latest ones.
func ofLastDay[T any](r reader, read func(context.Context, history.Query) ([]T, error)) (all []T, err error) {
	if len(r.o.Jobs) == 0 {
		return read(r.ctx, history.Query{From: r.f.Now.Add(-Day), Limit: mostRows})
	}
	for _, name := range r.o.Jobs {
		some, err := read(r.ctx, history.Query{Job: name, Limit: mostRuns})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// rest reads what depends on the registered jobs.
func (r reader) rest() (err error) {
	f := r.f
	f.From = f.Now.Add(-Day)
	if len(r.o.Jobs) == 0 { // what reaches into the day may have begun before it
		if n := len(f.Ticks); n == mostRows && f.Ticks[n-1].At.After(f.From) {
			f.From = f.Ticks[n-1].At.Add(time.Microsecond)
		}
		if n := len(f.Runs); n == mostRows && f.Runs[n-1].Started.After(f.From) {
			f.From = f.Runs[n-1].Started.Add(time.Microsecond)
		}
	}
	cut := f.From.After(f.Now.Add(-Day))
	if cut {
		r.cut("the ticks and runs since %s, and before that the last ticks of each registered job", stamp(f.From))
	}
	if cut || r.o.Lasts {
		if err := r.latest(); err != nil {
			return err
		}
	}
	if r.o.Lasts {
		if err := r.successes(); err != nil {
			return err
		}
	}
	var defined []*explain.Definition
	for _, j := range f.Jobs {
		if j.Err == nil {
			defined = append(defined, j.Definition)
		}
	}
	most := explain.Most{Rows: 4 * mostRows, Jobs: mostAlone, Ticks: max(mostTicks/max(len(defined), 1), 10)}
	missed, partly, err := explain.ReadUnsettled(r.ctx, r.b, defined, r.known(), f.Now, most)
	if err != nil {
		return fmt.Errorf("look for missed ticks: %w", err)
	}
	if f.Unsettled = missed; partly > 0 {
		r.cut("of %s only the latest ticks that nobody has settled", counted(partly, "job"))
	}
	return r.late()
}

// known returns the rows that were read.
func (r reader) known() explain.Known {
	by := map[string][]tick.Tick{}
	for _, t := range r.f.Ticks {
		by[t.Job] = append(by[t.Job], t)
	}
	return func(job string) ([]tick.Tick, time.Time) {
		rows, from, most := by[job], r.f.From, 0
		if len(r.o.Jobs) > 0 {
			most = mostRuns
		} else if last, asked := r.last[job]; asked && (len(last) < mostLast || lastOf(last[mostLast-1]).Before(from)) {
			rows, most = last, mostLast // they reach back further
		}
		if most > 0 && len(rows) < most {
			from = time.Time{}
		} else if most > 0 {
			from = rows[most-1].At
		}
		return rows, from
	}
}

// latest reads the last ticks of the jobs that have not ended since From: of what is due rarely, or hangs. If the last
// successes matter, it does so of those that have not succeeded.
func (r reader) latest() error {
	done := map[string]bool{}
	for _, t := range r.f.Ticks {
		done[t.Job] = done[t.Job] || says(t.Outcome) && !r.o.Lasts || t.Outcome == run.Succeeded
	}
	jobs := r.f.Jobs
	if r.o.Lasts {
		jobs = slices.Concat(jobs, r.f.Copies)
	}
	var names []string
	for _, j := range jobs {
		if !done[j.Job.Name] {
			names = append(names, j.Job.Name)
		}
	}
	last, err := explain.LatestTicks(r.ctx, r.b.History, names, mostLast)
	if err != nil {
		return fmt.Errorf("read the last ticks of each job: %w", err)
	}
	for i, rows := range last {
		r.last[names[i]] = rows
		r.f.Latest = append(r.f.Latest, rows...)
	}
	return nil
}

// successes looks further back for the last success of some jobs that have had none in the ticks that latest read.
func (r reader) successes() error {
	const rows = 100
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.last)) {
		last := r.last[name]
		if len(last) == mostLast && !slices.ContainsFunc(last, func(t tick.Tick) bool { return t.Outcome == run.Succeeded }) {
			names = append(names, name)
		}
	}
	if len(names) > mostAlone {
		r.cut("the last successes of %d of %d jobs that fail", mostAlone, len(names))
		names = names[:mostAlone]
	}
	queries := make([]history.Query, len(names))
	for i, name := range names {
		queries[i] = history.Query{Job: name, Limit: rows}
	}
	found, err := explain.Ticks(r.ctx, r.b.History, queries)
	if err != nil {
		return fmt.Errorf("look for the last success of each job: %w", err)
	}
	for _, ticks := range found {
		if i := slices.IndexFunc(ticks, func(t tick.Tick) bool { return t.Outcome == run.Succeeded }); i >= 0 {
			r.f.Latest = append(r.f.Latest, ticks[i])
		}
	}
	return nil
}

// late finds ticks that are due, and that no server has claimed although one serves them. What cron or systemd fires
// is late when it is missed.
func (r reader) late() error {
	f := r.f
	claimed := map[string]time.Time{} // the last tick of a job that is, or a later one: then it is missed, if anything
	for _, t := range slices.Concat(f.Ticks, f.Latest) {
		if last := lastOf(t); last.After(claimed[t.Job]) {
			claimed[t.Job] = last
		}
	}
	known := len(r.o.Jobs) > 0 || f.From.After(f.Now.Add(-Day)) // the last ticks of each job are, however old
	served := map[string]bool{}
	var doubtful []tick.Spot // they may have rows that were not read
	for _, j := range f.Jobs {
		app := tick.AppOf(j.Job.Name)
		if _, asked := served[app]; !asked {
			served[app] = len(f.Census.Serving(app).Up) > 0
		}
		if !served[app] || j.Err != nil {
			continue
		}
		at, ok := j.Definition.Late(f.Now.Add(-r.o.Patience), f.Now)
		if spot := (tick.Spot{Job: j.Job.Name, At: at}); !ok || !claimed[spot.Job].Before(at) {
			continue
		} else if at.Before(f.From) && !known {
			doubtful = append(doubtful, spot)
		} else {
			f.Late = append(f.Late, spot)
		}
	}
	if len(doubtful) == 0 {
		return nil
	}
	names := make([]string, len(doubtful))
	for i, s := range doubtful {
		names[i] = s.Job
	}
	last, err := explain.LatestTicks(r.ctx, r.b.History, names, 1)
	if err != nil {
		return fmt.Errorf("look for the ticks that are late: %w", err)
	}
	for i, s := range doubtful {
		if len(last[i]) == 0 || lastOf(last[i][0]).Before(s.At) {
			f.Late = append(f.Late, s)
		}
	}
	return nil
}

func (r reader) cut(what string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.f.Cut = append(r.f.Cut, fmt.Sprintf(what, args...))
}

// ofHost reports whether a name is that of a copy of a host's own job, whose lease is in that host's directory.
func ofHost(name string) bool {
	_, host := mirror.Split(name)
	return host != ""
}

// Copies returns the names that the copies of a host's own job have here, one for each host that has such a job.
func Copies(ctx context.Context, b *scheduler.Backend, job string) (names []string, err error) {
	hosts, err := mirror.Hosts(ctx, b)
	for _, h := range hosts {
		if slices.ContainsFunc(h.Jobs, func(j tick.Job) bool { return j.Name == job && j.Removed.IsZero() }) {
			names = append(names, mirror.On(job, h.ID))
		}
	}
	return names, err
}

// Empty reports whether nothing at all is on record.
func (f Facts) Empty() bool {
	return len(f.Census.Members)+len(f.Jobs)+len(f.Removed)+len(f.Held)+len(f.Ticks)+len(f.Runs)+len(f.Hosts)+len(f.Queues)+len(f.Workers)+len(f.Pauses) == 0
}

// Name returns a job's name for people: that of a host's own job names the host.
func (f Facts) Name(job string) string {
	name, host := mirror.Split(job)
	if host == "" {
		return name
	}
	return strings.Join([]string{name, "on", cmp.Or(f.Hosts[host], host)}, " ")
}
