// Command demo is `make run`: three servers on one embedded directory share a job that is due every
// five seconds; one of them is killed in the middle of a run, and another takes over.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

const manifest = `version: 1
app: demo
jobs:
  - name: invoices
    schedule: "@every 5s"
    command: ["sh", "-c", "echo working on $DIBS_TICK; sleep 2; echo done"]
    policy: {concurrency_scope: host, on_crash: rerun}
`

const (
	ticks   = 6 // how many ticks to watch
	killAt  = 3 // during which of them a server is killed
	endless = 44 * time.Second
)

var colours = map[string]string{"A": "\033[36m", "B": "\033[33m", "C": "\033[35m", "demo": "\033[1m"}

// coloured says whether an output may have colours: a terminal, unless its user wants none.
func coloured(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

func main() {
	if err := demo(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(binary string) error {
	dir, err := os.MkdirTemp("", "dibs-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "jobs.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o644); err != nil {
		return err
	}
	f := &fleet{binary: binary, dir: dir, manifest: path, started: make(chan string, 100), servers: map[string]*exec.Cmd{}, from: time.Now()}
	f.say("demo", "three servers, one embedded directory, one job due every 5 s: `invoices`, which works for 2 s")
	if out, err := f.command("init").CombinedOutput(); err != nil { // it is new: nothing has to be waited for
		return fmt.Errorf("dibs init: %w: %s", err, out)
	}
	defer f.stop()
	for _, name := range []string{"A", "B", "C"} {
		if err := f.serve(name); err != nil {
			return err
		}
	}
	if err := f.watch(); err != nil {
		return err
	}
	f.say("demo", "telling the servers to drain (SIGTERM)")
	f.stop()
	return f.summary()
}

// fleet is the servers of the demonstration.
type fleet struct {
	binary, dir, manifest string
	from                  time.Time
	started               chan string // the server that started a run

	mu      sync.Mutex
	servers map[string]*exec.Cmd
	output  sync.WaitGroup
}

func (f *fleet) command(args ...string) *exec.Cmd {
	cmd := exec.Command(f.binary, args...)
	cmd.Env = append(os.Environ(), "DIBS_STORE="+filepath.Join(f.dir, "store"), "DIBS_DIR="+filepath.Join(f.dir, "store"))
	return cmd
}

// serve starts one server and prints what it says in its colour.
func (f *fleet) serve(name string) error {
	cmd := f.command("serve", f.manifest)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		return err
	}
	f.servers[name] = cmd
	f.output.Go(func() {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			f.line(name, lines.Text())
		}
	})
	go func() { _ = cmd.Wait(); w.Close() }()
	return nil
}

var field = regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`)

// line shows one line of a server: its own log in words, the job's output as it is.
func (f *fleet) line(name, text string) {
	got := map[string]string{}
	for _, m := range field.FindAllStringSubmatch(text, -1) {
		got[m[1]] = strings.Trim(m[2], `"`)
	}
	switch got["event"] {
	case "":
		f.say(name, "  "+text)
	case "run-started":
		f.say(name, fmt.Sprintf("tick %s won; token %s", got["tick"], got["token"]))
		f.started <- name
	case "run-ended":
		f.say(name, fmt.Sprintf("tick %s %s after %s", got["tick"], got["outcome"], got["took"]))
	case "tick-taken-over", "run-crashed", "served", "serving":
		f.say(name, got["msg"])
	}
}

func (f *fleet) say(name, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	colour, reset := "", ""
	if coloured(os.Stdout) {
		colour, reset = colours[name], "\033[0m"
	}
	fmt.Printf("%s%5.1fs %4s │ %s%s\n", colour, time.Since(f.from).Seconds(), name, text, reset)
}

// watch follows the runs, kills a server in the middle of one, and returns after the last tick.
func (f *fleet) watch() error {
	end := time.After(endless - time.Since(f.from) - 6*time.Second)
	for n := 1; n <= ticks+1; n++ { // one tick has two runs
		select {
		case name := <-f.started:
			if n == killAt {
				time.Sleep(time.Second)
				f.say("demo", fmt.Sprintf("SIGKILL to server %s in the middle of its run", name))
				if err := f.servers[name].Process.Kill(); err != nil {
					return err
				}
				delete(f.servers, name)
			}
		case <-end:
			return errors.New("the servers did not start the expected runs in time")
		}
	}
	time.Sleep(2500 * time.Millisecond) // the last run works for 2 s
	return nil
}

func (f *fleet) stop() {
	for name, cmd := range f.servers {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		delete(f.servers, name)
	}
	f.output.Wait()
}

// record is what `dibs history -o json` says of a tick.
type record struct {
	Tick    *time.Time `json:"tick"`
	Outcome string     `json:"outcome"`
	Runs    []struct {
		Outcome        string    `json:"outcome"`
		Started, Ended time.Time `json:",omitzero"`
	} `json:"runs"`
}

// summary counts what history holds. A tick is doubled if two runs of it succeeded or overlapped.
func (f *fleet) summary() error {
	out, err := f.command("history", "-o", "json").Output()
	if err != nil {
		return fmt.Errorf("dibs history: %w", err)
	}
	var all []record
	if err := json.Unmarshal(out, &all); err != nil {
		return fmt.Errorf("dibs history: %w", err)
	}
	var outcomes, doubled, crashed int
	for _, r := range all {
		if r.Outcome != "claimed" && r.Outcome != "started" {
			outcomes++
		}
		good := 0
		for i, run := range r.Runs {
			switch run.Outcome {
			case "succeeded":
				good++
			case "crashed":
				crashed++
			}
			if i > 0 && run.Started.Before(r.Runs[i-1].Ended) && r.Runs[i-1].Outcome != "crashed" {
				good++
			}
		}
		if good > 1 {
			doubled++
		}
	}
	f.say("demo", fmt.Sprintf("%d ticks, %d outcomes, %d doubled (%d run crashed with its server and was run again)", len(all), outcomes, doubled, crashed))
	if outcomes != len(all) || doubled > 0 || crashed != 1 || len(all) < ticks {
		return fmt.Errorf("that is not what was promised: %s", out)
	}
	return nil
}
