package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"text/tabwriter"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// costs are what contestants use of the processors, the server's process and ours apart: other than rates, they say
// something on a machine that has other work as well.
type costs struct {
	client *goredis.Client
	names  []string
	by     map[string][][2]float64
}

func newCosts(client *goredis.Client) *costs {
	return &costs{client: client, by: map[string][][2]float64{}}
}

// of measures one turn of a contestant, which returns how many tasks it did per second of the time it took.
func (c *costs) of(name string, do func() (n int, took time.Duration, err error)) contestant {
	c.names = append(c.names, name)
	return contestant{name, func() (float64, error) {
		server, own := c.server(), ownTime()
		n, took, err := do()
		if err != nil {
			return 0, err
		}
		each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(n) }
		c.by[name] = append(c.by[name], [2]float64{each(c.server() - server), each(ownTime() - own)})
		return float64(n) / took.Seconds(), nil
	}}
}

// server is the processor time that Redis has used.
func (c *costs) server() (sum time.Duration) {
	info := c.client.InfoMap(context.Background(), "cpu").Val()["CPU"]
	for _, k := range []string{"used_cpu_user", "used_cpu_sys"} {
		s, _ := strconv.ParseFloat(info[k], 64)
		sum += time.Duration(s * float64(time.Second))
	}
	return sum
}

func ownTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// print writes medians of the rounds that count, and how the first contestant compares.
func (c *costs) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	var first float64
	for i, name := range c.names {
		var server, own []float64
		for _, v := range c.by[name][1:] {
			server, own = append(server, v[0]), append(own, v[1])
		}
		s, o := median(server), median(own)
		fmt.Fprintf(tw, "  %s\t%.1f µs of the server's\t%.1f µs of ours", name, s, o)
		if i == 0 {
			first = s + o
		} else {
			fmt.Fprintf(tw, "\t%s costs 1 / %.2f of it", c.names[0], (s+o)/first)
		}
		fmt.Fprintln(tw)
	}
	tw.Flush()
}
