//go:build linux

package chaos

import (
	"bufio"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A hostSpec is what a host's first process is told.
type hostSpec struct {
	Name, Dir     string // Dir has its logs and, below dibs, a small file system of its own
	Address, Peer string // of its end of the wire, and of the other one
	DiskBytes     int
	Env           []string
	Services      []service
}

// nonce stands in the arguments of a service for something that is another one each time.
const nonce = "NONCE"

// A service is a program that the init keeps running, or starts every so often as cron does.
type service struct {
	Name  string
	Args  []string
	Every time.Duration // 0: it is to run all the time
}

// playHost is process 1 of a host: it prepares the namespaces, and then is the init. A line on its standard input
// begins it once the network is there, a second one asks for an orderly end.
func playHost(args []string) int {
	var spec hostSpec
	if err := json.Unmarshal([]byte(args[0]), &spec); err != nil {
		return fail(err)
	}
	told := bufio.NewReader(os.Stdin)
	if _, err := told.ReadString('\n'); err != nil {
		return fail(err)
	}
	i := &initProcess{spec: spec, waiting: map[int]chan syscall.WaitStatus{}, services: map[int]bool{}}
	if err := i.prepare(); err != nil {
		return fail(err)
	}
	go i.reap()
	var services sync.WaitGroup
	for _, s := range spec.Services {
		if s.Every > 0 {
			go i.cron(s)
		} else {
			services.Go(func() { i.keep(s) })
		}
	}
	_, _ = told.ReadString('\n') // the end of the input is the end as well
	i.stop()
	services.Wait()
	i.note("init", 1, "stopped")
	select {} // the test ends us
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "chaos host:", err)
	return 1
}

type initProcess struct {
	spec hostSpec
	log  *os.File

	mu       sync.Mutex
	waiting  map[int]chan syscall.WaitStatus
	services map[int]bool
	stopping bool
}

func (i *initProcess) prepare() (err error) {
	if err := settle(); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(i.spec.Name)); err != nil {
		return err
	}
	disk := filepath.Join(i.spec.Dir, "dibs")
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", i.spec.DiskBytes)); err != nil {
		return fmt.Errorf("a small file system: %w", err)
	}
	for _, args := range [][]string{{"addr", "add", i.spec.Address + "/30", "dev", "eth0"}, {"link", "set", "eth0", "up"}} {
		if err := command("ip", args...); err != nil {
			return err
		}
	}
	i.log, err = os.OpenFile(filepath.Join(i.spec.Dir, "init.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	return err
}

// note is read by the test: when, who, which process, what.
func (i *initProcess) note(name string, pid int, what string) {
	fmt.Fprintf(i.log, "%d %s %d %s\n", bootTime(), name, pid, what)
}

// keep restarts a service that ends with a failure after one to two seconds, as systemd does with Restart=on-failure.
// One that ends well and unasked is noted; it would stay away for ever, and is started again only to see what else
// happens.
func (i *initProcess) keep(s service) {
	for !i.isStopping() {
		pid, ended, err := i.start(s)
		if err != nil {
			i.note(s.Name, 0, "not-started "+err.Error())
			time.Sleep(time.Second)
			continue
		}
		status := <-ended
		i.note(s.Name, pid, "ended "+statusText(status))
		if status.Exited() && status.ExitStatus() == 0 && !i.isStopping() {
			i.note(s.Name, pid, "gone-in-silence")
			time.Sleep(8 * time.Second)
		}
		time.Sleep(time.Second + rand.N(time.Second))
	}
}

// cron starts a service at each multiple of its period of this machine's wall clock, at most four at once.
func (i *initProcess) cron(s service) {
	running := make(chan struct{}, 4)
	for {
		now := time.Now()
		time.Sleep(now.Truncate(s.Every).Add(s.Every).Sub(now) + rand.N(100*time.Millisecond))
		if _, err := os.Stat(filepath.Join(i.spec.Dir, quietFlag)); err == nil || i.isStopping() {
			continue
		}
		select {
		case running <- struct{}{}:
		default:
			continue
		}
		pid, ended, err := i.start(s)
		if err != nil {
			i.note(s.Name, 0, "not-started "+err.Error())
			<-running
			continue
		}
		go func() {
			i.note(s.Name, pid, "ended "+statusText(<-ended))
			<-running
		}()
	}
}

// start starts a program whose standard error is a pipe that the init reads, unless it is told not to.
func (i *initProcess) start(s service) (int, <-chan syscall.WaitStatus, error) {
	out, err := os.OpenFile(filepath.Join(i.spec.Dir, s.Name+".out"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, nil, err
	}
	defer out.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer w.Close()
	_, _ = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096) // so that an unread one is soon full
	args := slices.Clone(s.Args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], nonce, crand.Text()[:10])
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = append(os.Environ(), i.spec.Env...), i.spec.Dir, out, w
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopping {
		_ = r.Close()
		return 0, nil, errors.New("the host is stopping")
	}
	if err := cmd.Start(); err != nil {
		_ = r.Close()
		return 0, nil, err
	}
	pid := cmd.Process.Pid
	ended := make(chan syscall.WaitStatus, 1)
	i.waiting[pid] = ended
	if s.Every == 0 {
		i.services[pid] = true
	}
	go i.pump(s.Name, r)
	i.note(s.Name, pid, "started")
	return pid, ended, nil
}

// pump carries a standard error to its log, and rests for as long as the test says.
func (i *initProcess) pump(name string, r *os.File) {
	defer r.Close()
	log, err := os.OpenFile(filepath.Join(i.spec.Dir, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer log.Close()
	b := make([]byte, 4096)
	for {
		for _, err := os.Stat(filepath.Join(i.spec.Dir, unreadFlag)); err == nil; _, err = os.Stat(filepath.Join(i.spec.Dir, unreadFlag)) {
			time.Sleep(50 * time.Millisecond)
		}
		n, err := r.Read(b)
		if n > 0 {
			_, _ = log.Write(b[:n])
		}
		if err != nil {
			return
		}
	}
}

// reap waits for every process of the host, orphans included.
func (i *initProcess) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil || pid <= 0 {
			time.Sleep(10 * time.Millisecond) // nobody is there
			continue
		}
		i.mu.Lock()
		if c, ok := i.waiting[pid]; ok {
			c <- status
			delete(i.waiting, pid)
			delete(i.services, pid)
		}
		i.mu.Unlock()
	}
}

func (i *initProcess) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopping = true
	for pid := range i.services {
		_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
	}
}

func (i *initProcess) isStopping() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stopping
}

func statusText(s syscall.WaitStatus) string {
	if s.Signaled() {
		return fmt.Sprintf("signal-%d", int(s.Signal()))
	}
	return fmt.Sprintf("%d", s.ExitStatus())
}
