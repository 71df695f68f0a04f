package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// A starter has n functions called at an instant. begun is called by each with its number as it begins. What it
// returns ends the scheduler, once what runs has ended, and says how many requests it made to a store.
type starter func(ctx context.Context, n int, at time.Time, begun func(i int)) (end func() (*tally, error), err error)

var starters = map[string]func(url, ns string) starter{
	"dibs":   dibsStarter,
	"robfig": func(string, string) starter { return robfigStarter },
	"gocron": func(string, string) starter { return gocronStarter },
}

// report is what a process of fires saw.
type report struct {
	Behind bool    // it was not ready in time
	Jobs   []int   // the functions that were called,
	Late   []int64 // and how long after the instant, in µs
	Calls  map[string]int
	Items  map[string]int
}

// firesChild is one process: it schedules n functions for an instant and prints a line with how many have begun
// ten times a second, until its input ends; then its report.
func firesChild(ctx context.Context, in io.Reader, out io.Writer, o options, library, url, ns, unix string) error {
	n := o.jobs
	sec, err := strconv.ParseInt(unix, 10, 64)
	if err != nil {
		return err
	}
	var (
		at   = time.Unix(sec, 0).UTC()
		late = make([]atomic.Int64, n) // 0: not called; else µs + 1 day, once for each call
		more sync.Mutex
		r    report
		seen atomic.Int64
	)
	const called = int64(24 * time.Hour / time.Microsecond)
	end, err := starters[library](url, ns)(ctx, n, at, func(i int) {
		us := time.Since(at).Microseconds()
		if !late[i].CompareAndSwap(0, called+us) { // twice: that is to be seen
			more.Lock()
			r.Jobs, r.Late = append(r.Jobs, i), append(r.Late, us)
			more.Unlock()
		}
		seen.Add(1)
	})
	if err != nil {
		return err
	}
	r.Behind = time.Until(at) < o.hold
	defer profile(o.prof, library)()
	over := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, in); close(over) }()
	progress := time.NewTicker(100 * time.Millisecond)
	defer progress.Stop()
	for done := r.Behind; !done; {
		select {
		case <-progress.C:
			fmt.Fprintln(out, seen.Load())
		case <-over:
			done = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c, err := end()
	if err != nil {
		return err
	}
	r.Calls, r.Items = c.take()
	for i := range late {
		if us := late[i].Load(); us != 0 {
			r.Jobs, r.Late = append(r.Jobs, i), append(r.Late, us-called)
		}
	}
	return json.NewEncoder(out).Encode(r)
}

// profile writes what the process does from now until it is ended; without a directory it does nothing.
func profile(dir, name string) (end func()) {
	if dir == "" {
		return func() {}
	}
	f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", name, os.Getpid())))
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		return func() {}
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
	}
	return func() { pprof.StopCPUProfile(); _ = f.Close() }
}

// burst is what became of n functions that were due at one instant, in all processes together.
type burst struct {
	late         []time.Duration // sorted
	twice        int
	calls, items map[string]int
	used         counters // what the server counted from just before the instant until all processes had ended
}

func (b burst) at(part float64) time.Duration {
	if len(b.late) == 0 {
		return 0
	}
	return b.late[min(int(part*float64(len(b.late))), len(b.late)-1)]
}

// leads are how long the processes have to register their functions: the next one where one is not ready in time.
var leads = []time.Duration{4 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute}

var errBehind = errors.New("the functions were not registered in time")

// fireOnce has so many processes of a library schedule n functions for one instant.
func fireOnce(ctx context.Context, o options, processes int, library, url string) (burst, error) {
	ready := time.Second
	if processes > 1 {
		ready = settleIn // they have met each other
	}
	for try, lead := range leads {
		b, err := fireAt(ctx, o, processes, library, url, fmt.Sprintf("%s-%d-%d", namespace, time.Now().UnixNano(), try),
			ready, time.Now().Add(ready+lead).Truncate(time.Second).Add(time.Second))
		if !errors.Is(err, errBehind) {
			return b, err
		}
	}
	return burst{}, errBehind
}

// patience bounds the wait for the last of the functions.
const patience = 3 * time.Minute

func fireAt(ctx context.Context, o options, processes int, library, url, ns string, ready time.Duration, at time.Time) (burst, error) {
	n := o.jobs
	ctx, cancel := context.WithDeadline(ctx, at.Add(patience+time.Minute))
	defer cancel()
	defer cleanStore(url, ns)
	all := make([]*child, processes)
	for i := range all {
		var err error
		if all[i], err = startChild(ctx, "-jobs", strconv.Itoa(o.jobs), "-profile", o.prof, "-hold", ready.String(), "fires-process", library, url, ns, strconv.FormatInt(at.Unix(), 10)); err != nil {
			return burst{}, err
		}
		defer all[i].kill()
	}
	sleep(ctx, time.Until(at)-200*time.Millisecond)
	before, err := readCounters(ctx, url)
	if err != nil {
		return burst{}, err
	}
	begun := func() (m int64) {
		for _, c := range all {
			m += c.seen.Load()
		}
		return m
	}
	for begun() < int64(n) && time.Since(at) < patience && ctx.Err() == nil && !ended(all) {
		sleep(ctx, 50*time.Millisecond)
	}
	if processes > 1 {
		sleep(ctx, 2*time.Second) // one that begins twice does so in this time
	}
	for _, c := range all {
		_ = c.stdin.Close()
	}
	b := burst{calls: map[string]int{}, items: map[string]int{}}
	ran := make([]int, n)
	behind := false
	for _, c := range all {
		r, err := c.wait()
		if err != nil {
			return b, err
		}
		behind = behind || r.Behind
		b.take(r, ran)
	}
	if behind {
		return b, errBehind
	}
	after, err := readCounters(ctx, url)
	b.used = after.minus(before)
	slices.Sort(b.late)
	if missed := n - len(b.late) + b.twice; missed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d functions were not called", missed, n))
	}
	return b, err
}

func (b *burst) take(r report, ran []int) {
	for i, j := range r.Jobs {
		if ran[j]++; ran[j] > 1 {
			b.twice++
		}
		b.late = append(b.late, time.Duration(r.Late[i])*time.Microsecond)
	}
	for k, v := range r.Calls {
		b.calls[k] += v
		b.items[k] += r.Items[k]
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// A child is a process of this program.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	seen  atomic.Int64 // functions that have begun there
	done  chan struct{}
	last  []byte // its report
}

func startChild(ctx context.Context, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, args...), done: make(chan struct{})}
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.done)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			if n, err := strconv.ParseInt(strings.TrimSpace(string(line)), 10, 64); err == nil {
				c.seen.Store(n)
			} else {
				c.last = line
			}
		}
	}()
	return c, nil
}

// ended says whether one of the processes has ended: it was not ready in time, or failed.
func ended(all []*child) bool {
	return slices.ContainsFunc(all, func(c *child) bool {
		select {
		case <-c.done:
			return true
		default:
			return false
		}
	})
}

// wait returns what the process reports at its end.
func (c *child) wait() (r report, err error) {
	<-c.done
	if err := c.cmd.Wait(); err != nil {
		return r, fmt.Errorf("a process of it: %w", err)
	}
	return r, json.Unmarshal(c.last, &r)
}

// kill ends a process that is still there.
func (c *child) kill() { _ = c.cmd.Process.Kill() }

// lateness compares how late functions begin that are due in one second in one process.
func lateness(ctx context.Context, w io.Writer, o options) error {
	libraries := []struct{ name, title, url string }{
		{"dibs", "dibs, memory:, claims and history", "memory:"},
		{"robfig", "robfig/cron", ""},
		{"gocron", "gocron", ""},
	}
	parts := []struct {
		name string
		of   float64
		t    table
	}{{"median", 0.5, table{}}, {"99th percentile", 0.99, table{}}, {"last", 1, table{}}}
	for p := range parts {
		parts[p].t.results = make([][]float64, len(libraries))
		for _, l := range libraries {
			parts[p].t.names = append(parts[p].t.names, l.title)
		}
	}
	for range o.rounds {
		for i, l := range libraries {
			b, err := fireOnce(ctx, o, 1, l.name, l.url)
			if err != nil {
				return fmt.Errorf("%s: %w", l.title, err)
			}
			for p := range parts {
				parts[p].t.results[i] = append(parts[p].t.results[i], b.at(parts[p].of).Seconds())
			}
		}
	}
	for _, p := range parts {
		fmt.Fprintf(w, "\n%d functions due in one second in one process, lateness, %s (median, range of %d rounds)\n", o.jobs, p.name, o.rounds)
		p.t.print(w, showTime)
	}
	return nil
}

// three has as many processes share the functions by a store.
func three(ctx context.Context, w io.Writer, o options, kind string) error {
	url, ok := addresses[kind]
	if !ok {
		return fmt.Errorf("fires %s: there is no such store here", kind)
	}
	const processes = 3
	fmt.Fprintf(w, "\n%s: %d functions due in one second in %d processes\n", kind, o.jobs, processes)
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(tw, "  round\tmedian\tp99\tlast\tclaims\ttwice\trequests\tper tick, by the server's counters\n")
	for round := range o.rounds {
		b, err := fireOnce(ctx, o, processes, "dibs", url)
		if err != nil {
			return err
		}
		ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
		fmt.Fprintf(tw, "  %d\t%s\t%s\t%s\t%.3f\t%d\t%.3f\t%s\n", round+1, ms(b.at(0.5)), ms(b.at(0.99)), ms(b.at(1)),
			float64(b.items["claim"])/float64(o.jobs), b.twice, float64(sum(b.calls))/float64(o.jobs), b.used.per(float64(o.jobs), "%.3f"))
		if round == o.rounds-1 {
			defer fmt.Fprintf(w, "  requests of the last round, in all: %v\n", b.calls)
		}
	}
	return tw.Flush()
}
