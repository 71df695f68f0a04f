package cli

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// notifier tells the service manager how this process is: sd_notify(3). Without a manager that wants to hear, it is
// nil and says nothing. It is safe for concurrent use.
type notifier struct {
	conn     *net.UnixConn
	watchdog time.Duration // how often the manager wants a sign of life; 0: never
}

// newNotifier finds the manager by the environment. It takes the variables away: commands must not speak for this
// process.
func newNotifier() *notifier {
	socket, usec, pid := os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil
	}
	n := &notifier{conn: conn}
	if d, err := strconv.ParseInt(usec, 10, 64); err == nil && d > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(d) * time.Microsecond
	}
	return n
}

// notifyTime bounds one message: a manager that does not read holds up no work.
const notifyTime = 100 * time.Millisecond

func (n *notifier) tell(lines ...string) {
	if n == nil {
		return
	}
	_ = n.conn.SetWriteDeadline(time.Now().Add(notifyTime))
	_, _ = n.conn.Write([]byte(strings.Join(lines, "\n")))
}

// ready says that the service does its work, and which.
func (n *notifier) ready(format string, args ...any) {
	n.tell("READY=1", "STATUS="+fmt.Sprintf(format, args...))
}

// reloading comes before ready where a configuration is read anew.
func (n *notifier) reloading() {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	n.tell("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

func (n *notifier) stopping() { n.tell("STOPPING=1") }

// live gives signs of life, twice in each time that the manager wants one, until over is closed. check returns while
// the process is well; one that hangs there is ended by the manager.
func (n *notifier) live(over <-chan struct{}, check func()) {
	if n == nil || n.watchdog == 0 {
		return
	}
	beat := time.NewTicker(n.watchdog / 2)
	defer beat.Stop()
	for {
		check()
		n.tell("WATCHDOG=1")
		select {
		case <-over:
			return
		case <-beat.C:
		}
	}
}
