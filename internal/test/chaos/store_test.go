//go:build linux

package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A technology is what differs between the stores.
type technology interface {
	// binaries are what must be on this machine; account is whom the server runs as when we are root, "" is us.
	binaries() []string
	account() string
	// install makes the data of a new server; args are the server's arguments, its path the first.
	install(n *node) error
	args(n *node) []string
	ping(ctx context.Context, n *node) error
	// follow makes an empty node the replica of the server at a port, and starts it.
	follow(n *node, port int) error
	// follows fails if the replica is not soon where the primary is now.
	follows(ctx context.Context, primary, replica *node) error
	promote(n *node) error
	url(address string) string
}

// A cluster is a primary and a replica of the test's own.
type cluster struct {
	technology
	dir         string
	tell        func(format string, args ...any)
	nodes       [2]*node
	replication *proxy // the way from the replica to the primary
	serving     int    // which node the address leads to
	clock       *os.File
	noClock     error // why the clock cannot be stepped
	// following is closed once the replica follows; closing says that it need not any more.
	following, closing chan struct{}
}

// A node is one server, in a process namespace of its own: the end of its first process is the end of all of them.
type node struct {
	cluster   *cluster
	dir, data string // data is below dir, a small file system of the node's own
	port      int
	cmd       *exec.Cmd
	ended     chan struct{}
}

const (
	replicationPort = 7003
	nodeDisk        = 512 << 20 // bytes
)

func newCluster(dir string, tech technology, tell func(string, ...any)) (c *cluster, err error) {
	c = &cluster{technology: tech, dir: dir, tell: tell, closing: make(chan struct{})}
	c.clock, c.noClock = newClock(dir)
	for i := range c.nodes {
		n := &node{cluster: c, dir: filepath.Join(dir, "store"+string(rune('a'+i))), port: 7001 + i}
		n.data = filepath.Join(n.dir, "data")
		c.nodes[i] = n
		if err := n.mount(); err != nil {
			return c, err
		}
	}
	if err := c.install(c.nodes[0]); err != nil {
		return c, err
	}
	if err := c.nodes[0].start(); err != nil {
		return c, err
	}
	c.replication, err = newProxy(fmt.Sprintf("127.0.0.1:%d", replicationPort), c.nodes[0].address())
	return c, err
}

// newClock makes the file by which the servers' clock is stepped, and the library that reads it.
func newClock(dir string) (*os.File, error) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		return nil, err
	}
	if err := command(cc, "-shared", "-fPIC", "-O2", "-o", filepath.Join(dir, "clock.so"), "testdata/clock.c", "-ldl"); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "clock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	return f, f.Truncate(4096)
}

// step puts the servers' clock so far off the true one.
func (c *cluster) step(by time.Duration) error {
	_, err := c.clock.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(by.Microseconds())), 0)
	return err
}

func (c *cluster) kill() {
	c.nodes[0].kill()
	close(c.closing)
	if c.following != nil {
		<-c.following
	}
	for _, n := range c.nodes {
		if n == nil {
			continue
		}
		n.kill()
		_ = unix.Unmount(n.dir, unix.MNT_DETACH) // the end of the test process would do it as well
	}
	if c.replication != nil {
		c.replication.close()
	}
}

func (n *node) address() string { return "127.0.0.1:" + strconv.Itoa(n.port) }

// mount gives a node its small file system.
func (n *node) mount() error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", n.dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", nodeDisk)); err != nil {
		return err
	}
	return n.empty()
}

// empty removes the data, and leaves a directory that the server's account owns.
func (n *node) empty() error {
	who, err := n.credential()
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(n.data), os.Mkdir(n.data, 0o700)); err != nil || who == nil {
		return err
	}
	return errors.Join(os.Chown(n.dir, int(who.Uid), int(who.Gid)), os.Chown(n.data, int(who.Uid), int(who.Gid)))
}

func (n *node) credential() (*syscall.Credential, error) {
	name := n.cluster.account()
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// run carries out a preparing program as the server's account.
func (n *node) run(name string, args ...string) error {
	cmd, err := n.command(name, args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out[max(0, len(out)-2000):])
	}
	return nil
}

func (n *node) command(name string, args ...string) (*exec.Cmd, error) {
	path, err := binaryPath(name)
	if err != nil {
		return nil, err
	}
	who, err := n.credential()
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.SysProcAttr = n.dir, &syscall.SysProcAttr{Credential: who}
	cmd.Env = append(cleanEnvironment(), "HOME="+n.dir, "USER=", "LOGNAME=")
	return cmd, err
}

// start starts the server and waits until it answers.
func (n *node) start() error {
	args := n.cluster.args(n)
	cmd, err := n.command(args[0], args[1:]...)
	if err != nil {
		return err
	}
	if n.cluster.noClock == nil {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+filepath.Join(n.cluster.dir, "clock.so"), "DIBS_CHAOS_CLOCK="+n.cluster.clock.Name())
	}
	log, err := os.OpenFile(n.dir+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	if err := launch(cmd); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.cmd, n.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(ended)
	}()
	return n.await()
}

const startTimeout = time.Minute

func (n *node) await() error {
	for end := time.Now().Add(startTimeout); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := n.cluster.ping(ctx, n)
		cancel()
		switch {
		case err == nil:
			return nil
		case !n.alive():
			return fmt.Errorf("the store on port %d ended at its start: see %s.log", n.port, n.dir)
		case time.Now().After(end):
			return fmt.Errorf("the store on port %d does not answer: %w", n.port, err)
		}
	}
}

func (n *node) alive() bool {
	if n.cmd == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

func (n *node) kill() {
	if n != nil && n.cmd != nil {
		_ = n.cmd.Process.Kill() // it may have ended
		<-n.ended
	}
}

// signalFirst sends a signal to the server's first process alone.
func (n *node) signalFirst(s syscall.Signal) { _ = n.cmd.Process.Signal(s) } // it may have ended

func (n *node) signal(s syscall.Signal) {
	if n.alive() {
		signalAll(s, family(n.cmd.Process.Pid)...)
	}
}

// binaryPath finds a program in PATH, or where distributions hide it.
func binaryPath(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/", "/usr/sbin/", "/usr/local/sbin/"} {
		if found, _ := filepath.Glob(pattern + name); len(found) > 0 { // the pattern is well formed
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s is not on this machine", name)
}

// missing says which of some programs is not on this machine.
func missing(names ...string) error {
	for _, name := range names {
		if _, err := binaryPath(name); err != nil {
			return err
		}
	}
	return nil
}
