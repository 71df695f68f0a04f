// Command bench compares dibs with its peers, side by side in one run. The parts that take turns do
// so round by round, and what is printed are medians and ratios, so that a busy machine falls on
// all of them alike.
//
//	bench redis | postgres             lease cycles beside other libraries, and beside a plain table
//	bench queue redis                  tasks enqueued and worked off, beside asynq
//	bench queue postgres               tasks beside River
//	bench heartbeat redis | postgres   what it costs to hold 10,000 leases
//	bench fires                        functions due in one second, beside robfig/cron and gocron
//	bench fires redis | postgres       the same in three processes, which share them by a store
//	bench entries                      a million schedules in one process, beside the two
//	bench next                         ticks that schedules compute per second, beside four libraries
//	bench idle                         what a server asks of each store while nothing is due
//	bench start DIBS FLOOR             whole processes of dibs run, beside the least there can be
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are how long to measure.
type options struct {
	rounds  int           // of each comparison
	turn    time.Duration // one contestant's part of a round of cycles
	hold    time.Duration // the heartbeat's
	leases  int           // the heartbeat's
	tasks   int           // that are worked off in a turn
	jobs    int           // that are due in one second
	entries int           // that wait in one process
	prof    string        // a directory for processor profiles of dibs's processes
	part    string        // of what is measured of queues; empty: all
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 9, "rounds of a comparison (of start: ten times as many)")
	flag.DurationVar(&o.turn, "turn", time.Second, "how long one contestant's turn of lease cycles takes")
	flag.DurationVar(&o.hold, "hold", 30*time.Second, "how long is measured in heartbeat, entries and idle")
	flag.IntVar(&o.leases, "leases", 10_000, "how many leases heartbeat holds")
	flag.IntVar(&o.tasks, "tasks", 50_000, "how many tasks are worked off in a turn")
	flag.IntVar(&o.jobs, "jobs", 10_000, "how many functions are due in one second in fires")
	flag.IntVar(&o.entries, "entries", 1_000_000, "how many entries wait in one process in entries")
	flag.StringVar(&o.prof, "profile", "", "a directory for the processor profiles of the processes that fires starts")
	flag.StringVar(&o.part, "part", "", "of what is measured of queues only this: start, work, single or bulk")
	flag.Parse()
	// An interrupted run removes what it made.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, os.Stdout, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, w io.Writer, o options, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "redis":
		return redisCycles(ctx, w, o)
	case len(args) == 1 && args[0] == "postgres":
		return postgresCycles(ctx, w, o)
	case len(args) == 2 && args[0] == "queue" && args[1] == "redis":
		return redisQueues(ctx, w, o)
	case len(args) == 2 && args[0] == "queue" && args[1] == "postgres":
		return postgresQueues(ctx, w, o)
	case len(args) == 1 && args[0] == "fires":
		return lateness(ctx, w, o)
	case len(args) == 2 && args[0] == "fires":
		return three(ctx, w, o, args[1])
	case len(args) == 5 && args[0] == "fires-process": // what fires starts
		return firesChild(ctx, os.Stdin, os.Stdout, o, args[1], args[2], args[3], args[4])
	case len(args) == 1 && args[0] == "idle":
		return idle(ctx, w, o)
	case len(args) == 3 && args[0] == "idle-process": // what idle starts
		return idleChild(ctx, os.Stdin, os.Stdout, o, args[1], args[2])
	case len(args) == 1 && args[0] == "entries":
		return entries(ctx, w, o)
	case len(args) == 2 && args[0] == "entries-process": // what entries starts
		return entriesChild(ctx, os.Stdout, o, args[1])
	case len(args) == 1 && args[0] == "next":
		return nexts(ctx, w, o)
	case len(args) == 2 && args[0] == "heartbeat":
		return heartbeat(ctx, w, o, args[1])
	case len(args) == 3 && args[0] == "start":
		return start(w, args[1], args[2], 10*o.rounds)
	}
	return errors.New("usage: bench [flags] redis | postgres | queue redis|postgres | heartbeat redis|postgres | fires [redis|postgres] | entries | next | idle | start DIBS FLOOR")
}
