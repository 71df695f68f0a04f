package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// entriesReport is what a process of entries measured.
type entriesReport struct {
	N         int
	Job       float64 // bytes of what was handed over for each, as far as the caller made it
	Entry     float64 // and of what the scheduler adds to it
	Add, Took time.Duration
	CPU       time.Duration
}

// entries measures what it costs to have many schedules in one process, none of which is due.
func entries(ctx context.Context, w io.Writer, o options) error {
	fmt.Fprintf(w, "\nmany entries in one process, none of which is due (goal: at most 64 bytes each beside the job)\n")
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(tw, "  library\tentries\tbytes each\tof the job itself\tadded\tprocessor when idle\n")
	for _, l := range []struct {
		name string
		n    int
	}{{"dibs", o.entries}, {"robfig", o.entries}, {"gocron", o.entries / 10}} {
		c, err := startChild(ctx, "-entries", strconv.Itoa(l.n), "-hold", o.hold.String(), "-profile", o.prof, "entries-process", l.name)
		if err != nil {
			return err
		}
		defer c.kill()
		<-c.done
		if err := c.cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		var r entriesReport
		if err := json.Unmarshal(c.last, &r); err != nil {
			return err
		}
		fmt.Fprintf(tw, "  %s\t%d\t%.0f\t%.0f\t%.0f/s\t%.2f %%\n", l.name, r.N, r.Entry, r.Job, float64(r.N)/r.Add.Seconds(), 100*r.CPU.Seconds()/r.Took.Seconds())
	}
	return tw.Flush()
}

func entriesChild(ctx context.Context, out io.Writer, o options, library string) error {
	start := map[string]func(context.Context, options) (entriesReport, func() error, error){
		"dibs": dibsEntries, "robfig": robfigEntries, "gocron": gocronEntries}[library]
	r, end, err := start(ctx, o)
	if err != nil {
		return err
	}
	sleep(ctx, settleIn)
	began, used := time.Now(), cpu()
	stop := profile(o.prof, library)
	sleep(ctx, o.hold)
	stop()
	r.N, r.Took, r.CPU = o.entries, time.Since(began), cpu()-used
	if err := end(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// heap is how many bytes are in use, rubbish not among them.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools kept from the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// yesterday is an expression that was due two hours ago, and is not for most of a day.
func yesterday() string {
	at := time.Now().UTC().Add(-2 * time.Hour)
	return fmt.Sprintf("%d %d * * *", at.Minute(), at.Hour())
}

func dibsEntries(ctx context.Context, o options) (r entriesReport, end func() error, err error) {
	p, closePlace, err := openBackend(ctx, "memory:", namespace, new(tally))
	if err != nil {
		return r, nil, err
	}
	p.Ticks = forgetful{p.Ticks}
	p.Book = tick.NewBook(p.Ticks, p.Keeper, p.Self)
	empty := heap()
	jobs, err := benchJobs(o.entries, yesterday(), func(int) {})
	if err != nil {
		return r, nil, err
	}
	made := heap()
	s := scheduler.NewServer(p, benchApp)
	began := time.Now()
	if err := s.Load(ctx, jobs); err != nil {
		return r, nil, err
	}
	r.Add = time.Since(began)
	r.Job, r.Entry = (made-empty)/float64(o.entries), (heap()-made)/float64(o.entries)
	runtime.KeepAlive(jobs)
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, time.Minute) }()
	return r, func() error { stop(); defer closePlace(); return <-done }, nil
}

// forgetful registers jobs and keeps none, so that what remains in memory is the server's. Its answers have
// bytes of their own, like those that come by a wire.
type forgetful struct{ tick.Store }

func (f forgetful) SetJobs(_ context.Context, reqs []tick.JobRequest) ([]tick.Job, error) {
	jobs, now := make([]tick.Job, len(reqs)), time.Now().UTC()
	for i, r := range reqs {
		r.Name, r.Definition = strings.Clone(r.Name), strings.Clone(r.Definition)
		jobs[i], _ = r.Apply(tick.Job{}, false, now)
	}
	return jobs, nil
}

func robfigEntries(_ context.Context, o options) (r entriesReport, end func() error, err error) {
	c, expr := cron.New(cron.WithLocation(time.UTC)), yesterday()
	empty := heap()
	began := time.Now()
	for range o.entries {
		if _, err := c.AddFunc(expr, func() {}); err != nil {
			return r, nil, err
		}
	}
	r.Add = time.Since(began)
	r.Entry = (heap() - empty) / float64(o.entries)
	c.Start()
	return r, func() error { <-c.Stop().Done(); return nil }, nil
}

func gocronEntries(_ context.Context, o options) (r entriesReport, end func() error, err error) {
	s, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return r, nil, err
	}
	expr := yesterday()
	empty := heap()
	began := time.Now()
	for range o.entries {
		if _, err := s.NewJob(gocron.CronJob(expr, false), gocron.NewTask(func() {})); err != nil {
			return r, nil, err
		}
	}
	r.Add = time.Since(began)
	r.Entry = (heap() - empty) / float64(o.entries)
	s.Start()
	return r, s.Shutdown, nil
}
