package scope

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// openPatience bounds what is asked at the start, when no job waits.
const openPatience = 10 * time.Second

const (
	systemd = "org.freedesktop.systemd1"
	manager = dbus.ObjectPath("/org/freedesktop/systemd1")
)

// A socketAt is where a manager can be asked.
type socketAt struct {
	path string
	// shared says that this is the socket of a bus, whose clients say hello first.
	shared bool
}

// errOther is the error for a user other than root: the system's manager would not obey that user.
var errOther = errors.New("only root may ask the system's manager for scopes")

// addresses are where the manager of a service can be asked, the best first. Its own socket needs no bus.
func (s service) addresses() ([]socketAt, error) {
	switch runtime := os.Getenv("XDG_RUNTIME_DIR"); {
	case s.user && runtime == "":
		return nil, errors.New("XDG_RUNTIME_DIR is missing, so the user's manager cannot be reached")
	case s.user:
		return []socketAt{{filepath.Join(runtime, "systemd/private"), false}, {filepath.Join(runtime, "bus"), true}}, nil
	case os.Geteuid() != 0:
		return nil, errOther
	}
	return []socketAt{{"/run/systemd/private", false}, {"/run/dbus/system_bus_socket", true}}, nil
}

// connect connects to the first address that answers.
func connect(ctx context.Context, all []socketAt) (*dbus.Conn, error) {
	var errs []error
	for _, a := range all {
		conn, err := a.connect(ctx)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (a socketAt) connect(ctx context.Context) (*dbus.Conn, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "unix", a.path)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = raw.SetDeadline(deadline) // of a socket it does not fail
	}
	conn, err := dbus.NewConn(raw)
	if err != nil {
		raw.Close()
		return nil, err
	}
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Geteuid()))})
	if err == nil {
		err = taken(ctx, raw.(*net.UnixConn))
	}
	if err == nil && a.shared {
		err = conn.Hello()
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", a.path, err)
	}
	return conn, nil
}

// taken waits until the other side has read all that was written. systemd (252, as server of its own socket)
// overlooks a question that it reads in one piece with the end of the authentication, and answers it only when
// something else comes.
func taken(ctx context.Context, to *net.UnixConn) error {
	raw, err := to.SyscallConn()
	if err != nil {
		return err
	}
	for wait := 50 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		left, asked := 0, error(nil)
		if err := raw.Control(func(fd uintptr) { left, asked = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil || asked != nil {
			return errors.Join(err, asked)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// call asks an object of systemd's.
func call(ctx context.Context, c *dbus.Conn, at dbus.ObjectPath, method string, args ...any) *dbus.Call {
	return c.Object(systemd, at).CallWithContext(ctx, method, 0, args...)
}
