//go:build linux

package chaos

import (
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// beatEvery is how finely a living work is seen.
const beatEvery = 25 * time.Millisecond

// bootTime is the clock of the observer: one for all hosts, and nobody steps it.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has it since 2.6.39
	}
	return time.Duration(ts.Nano())
}

// A witness appends lines about one work. Each line is one short write to a file opened for appending, so that those
// of many processes do not mix.
type witness struct {
	file *os.File
	id   string
}

func newWitness(path, id string) (witness, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	return witness{f, id}, err
}

func (w witness) begin(f facts) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return w.say("B", string(b))
}

func (w witness) say(what, more string) error {
	_, err := fmt.Fprintf(w.file, "%s %s %d %s\n", what, w.id, bootTime(), more)
	return err
}

func (w witness) beatFor(d time.Duration) {
	for end := bootTime() + d; bootTime() < end; time.Sleep(min(beatEvery, max(end-bootTime(), 0))) {
		_ = w.say(".", "") // a full disk of the observer's shows as a work that died
	}
}

// facts are what a work says of itself when it begins.
type facts struct {
	Key, Host, Run, Tick, Task, Limit string
	Token, Attempt                    int64
}

func factsFromEnvironment() facts {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(os.Getenv(name), 10, 64) // 0 where there is none
		return n
	}
	host, _ := os.Hostname() // it then has no name
	return facts{Key: os.Getenv("DIBS_KEY"), Host: host, Run: os.Getenv("DIBS_RUN_ID"), Tick: os.Getenv("DIBS_TICK"),
		Task: os.Getenv("DIBS_TASK"), Token: number("DIBS_TOKEN"), Attempt: number("DIBS_ATTEMPT")}
}

// playWork is the command of every job and task.
func playWork(args []string) int {
	o := flag.NewFlagSet("work", flag.ExitOnError)
	path := o.String("to", "", "the witness's file")
	own := o.Bool("host", false, "the key is each host's own")
	deaf := o.Bool("deaf", false, "ignore SIGTERM")
	family := o.Bool("family", false, "leave a child behind, in a session and an environment of its own")
	task := o.Bool("task", false, "read a task's arguments")
	from := o.Duration("from", 200*time.Millisecond, "the shortest work")
	to := o.Duration("until", time.Second, "the longest work")
	_ = o.Parse(args)
	if *deaf {
		signal.Ignore(syscall.SIGTERM)
	}
	f := factsFromEnvironment()
	if *own {
		f.Key += "@" + f.Host
	}
	if *task {
		var told struct{ Limit, N string }
		b, _ := io.ReadAll(os.Stdin) // arguments that cannot be read name no limit
		_ = json.Unmarshal(b, &told)
		f.Limit = told.Limit
		f.Key = "task/" + f.Task + "/" + told.N // a failover that forgets a task gives its id to another one
	}
	w, err := newWitness(*path, rand.Text()[:10])
	if err == nil {
		err = w.begin(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos work:", err)
		return 3
	}
	d := *from + time.Duration(mrand.Int64N(int64(*to-*from)+1))
	if *family {
		child := exec.Command(self, "beat", *path, w.id, (d + time.Second/2).String())
		child.Env, child.SysProcAttr = []string{}, &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			fmt.Fprintln(os.Stderr, "chaos work:", err)
		}
	}
	w.beatFor(d)
	if err := w.say("E", ""); err != nil {
		return 3
	}
	return 0
}

// playBeat is the child that a work leaves behind.
func playBeat(args []string) int {
	w, err := newWitness(args[0], args[1])
	if err != nil {
		return 3
	}
	d, err := time.ParseDuration(args[2])
	if err != nil {
		return 3
	}
	w.beatFor(d)
	return 0
}
