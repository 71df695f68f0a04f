package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dibs-run/dibs/lease"
)

// rarely is due on 29 February: not while anybody measures.
const rarely = "0 0 29 2 *"

// idle measures what one server asks of each store while none of its jobs is due.
func idle(ctx context.Context, w io.Writer, o options) error {
	dir, err := os.MkdirTemp("", "dibs-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	beats := float64(time.Minute / lease.MarginFor(ttl).Heartbeat)
	fmt.Fprintf(w, "\nan idle server, for %s (goal: at most one request per heartbeat, which is %.0f a minute)\n", o.hold, beats)
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(tw, "  store\tjobs\trequests/min\tper heartbeat\tprocessor\tMB written a day\tper minute, by the server's counters\n")
	var lines []string
	for _, kind := range []string{"postgres", "mariadb", "redis", "directory"} {
		for _, n := range []int{10, o.jobs} {
			url := addresses[kind]
			if kind == "directory" {
				url = "file://" + dir + "/" + strconv.Itoa(n)
			}
			r, used, err := idleOnce(ctx, o, n, url)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			minutes := r.Took.Minutes()
			calls := float64(sum(r.Calls)) / minutes
			fmt.Fprintf(tw, "  %s\t%d\t%.0f\t%.1f\t%.2f %%\t%s\t%s\n", kind, n, calls, calls/beats, 100*r.CPU.Seconds()/r.Took.Seconds(),
				written(r, used), used.per(minutes, "%.0f"))
			lines = append(lines, fmt.Sprintf("  %s, %d jobs: %s", kind, n, perMinute(r.Calls, minutes)))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "  requests a minute\n%s\n", strings.Join(lines, "\n"))
	return err
}

// written is what a day of this would write, by the server's own log, or by what the process had its kernel write.
func written(r idleReport, used counters) string {
	days := r.Took.Hours() / 24
	for _, name := range []string{"bytes of WAL", "bytes of AOF", "bytes of log"} {
		if n, ok := used[name]; ok {
			return fmt.Sprintf("%.1f", n/days/1e6)
		}
	}
	if used != nil {
		return "none: no AOF"
	}
	return fmt.Sprintf("%.1f", float64(r.Written)/days/1e6)
}

func perMinute(calls map[string]int, minutes float64) string {
	names := slices.SortedFunc(maps.Keys(calls), func(x, y string) int { return calls[y] - calls[x] })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.0f", name, float64(calls[name])/minutes)
	}
	return strings.Join(names, ", ")
}

// idleReport is what a process of idle saw while it was measured.
type idleReport struct {
	Took, CPU time.Duration
	Written   int64 // bytes
	Calls     map[string]int
}

func idleOnce(ctx context.Context, o options, n int, url string) (r idleReport, used counters, err error) {
	ns := fmt.Sprintf("%s-%d", namespace, time.Now().UnixNano())
	defer cleanStore(url, ns)
	c, err := startChild(ctx, "-jobs", strconv.Itoa(n), "-hold", o.hold.String(), "idle-process", url, ns)
	if err != nil {
		return r, nil, err
	}
	defer c.kill()
	for c.seen.Load() == 0 && !ended([]*child{c}) && ctx.Err() == nil { // it is steady
		sleep(ctx, 10*time.Millisecond)
	}
	before, err := readCounters(ctx, url)
	if err != nil {
		return r, nil, err
	}
	for c.seen.Load() == 1 && !ended([]*child{c}) && ctx.Err() == nil { // it measures
		sleep(ctx, 10*time.Millisecond)
	}
	after, err := readCounters(ctx, url)
	if err != nil {
		return r, nil, err
	}
	_ = c.stdin.Close()
	<-c.done
	if err := c.cmd.Wait(); err != nil {
		return r, nil, err
	}
	if after != nil {
		used = after.minus(before)
	}
	return r, used, json.Unmarshal(c.last, &r)
}

// settleIn is how long a server serves before it is measured: what it reads once is read.
const settleIn = 10 * time.Second

// idleChild serves n jobs that are not due. It prints 1 when it begins to measure, 2 when it has, and its
// report once its input ends.
func idleChild(ctx context.Context, in io.Reader, out io.Writer, o options, url, ns string) error {
	c := new(tally)
	p, closePlace, err := openBackend(ctx, url, ns, c)
	if err != nil {
		return err
	}
	defer closePlace()
	jobs, err := benchJobs(o.jobs, rarely, func(int) {})
	if err != nil {
		return err
	}
	end, err := serveJobs(ctx, p, jobs)
	if err != nil {
		return err
	}
	sleep(ctx, settleIn)
	c.take()
	fmt.Fprintln(out, 1)
	began, used, wrote := time.Now(), cpu(), writtenHere()
	stop := profile(o.prof, "idle")
	sleep(ctx, o.hold)
	stop()
	r := idleReport{Took: time.Since(began), CPU: cpu() - used, Written: writtenHere() - wrote}
	r.Calls, _ = c.take()
	fmt.Fprintln(out, 2)
	_, _ = io.Copy(io.Discard, in)
	if err := end(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// writtenHere is how many bytes this process has had written to disks, as Linux counts them.
func writtenHere() (n int64) {
	f, err := os.Open("/proc/self/io")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "write_bytes: "); ok {
			n, _ = strconv.ParseInt(v, 10, 64)
		}
	}
	return n
}
