package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/dibs-run/dibs/internal/nested"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/run/command"
)

// errWithheld is of a command that dibs runs, and that names no store of its own: any other than that dibs's would be
// the wrong one.
var errWithheld = errors.New("the dibs that runs this command hides its store's address, because it may contain a password: " +
	"only `dibs task enqueue` can reach that store through it; name a store with --store, DIBS_STORE or DIBS_STORE_FILE")

// via is the way to the store of the dibs that runs this command, where the command knows no other.
func via(flag string) (c nested.Client, ok bool) {
	c.Via = os.Getenv(nested.Variable)
	if c.Via == "" || flag != "" || os.Getenv("DIBS_STORE") != "" {
		return c, false
	}
	path, said := os.LookupEnv("DIBS_STORE_FILE")
	if !said {
		return c, true
	}
	_, err := os.Stat(path)
	if err == nil {
		var f *os.File
		if f, err = os.Open(path); err == nil {
			f.Close()
		}
	}
	return c, errors.Is(err, fs.ErrPermission) // the file is for dibs, and this command runs as somebody else
}

// An inner is how the commands of this process reach its store. A nil one is of a process that runs none.
type inner struct {
	address address
	log     *slog.Logger
	server  *nested.Server // nil where there can be none

	mu     sync.Mutex
	opened *opened
	client *queue.Client
}

func newInner(a address, log *slog.Logger) *inner {
	i := &inner{address: a, log: log}
	var err error
	if i.server, err = nested.Listen(i.enqueue); err != nil {
		i.server = nil
		log.Debug("commands cannot enqueue through this process", "event", "nested-unreachable", "error", err)
	}
	return i
}

// environ is what all commands find of the store: the name of the file that names it, if that is what does.
func (i *inner) environ(base []string) []string {
	env := slices.DeleteFunc(command.WithoutStore(base), func(v string) bool { return strings.HasPrefix(v, "DIBS_STORE_FILE=") })
	if i.address.file != "" {
		env = append(env, "DIBS_STORE_FILE="+i.address.file)
	}
	return env
}

// enter is a command.Entrance. Where nobody named a store, our own user's commands find the same directory.
func (i *inner) enter(u *command.User) (env []string, leave func()) {
	uid := uint32(os.Geteuid())
	switch {
	case u != nil:
		uid = u.UID
	case i.address.implicit:
		return nil, func() {}
	}
	variable, leave := nested.Variable+"="+nested.Unreachable, func() {}
	if i.server != nil {
		variable, leave = i.server.Admit(uid)
	}
	return []string{variable}, leave
}

// enqueue takes a command's tasks in, by a connection of its own: no run waits for it. It is opened when it is
// first needed.
func (i *inner) enqueue(ctx context.Context, specs []queue.Spec) ([]queue.Enqueued, error) {
	c, err := i.queue(ctx)
	if err != nil {
		return nil, err
	}
	return c.EnqueueMany(ctx, specs)
}

func (i *inner) queue(ctx context.Context) (*queue.Client, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client == nil {
		p, err := open(ctx, i.address.Config, i.log)
		if err != nil {
			return nil, err
		}
		if p.store.Queue == nil {
			p.close()
			return nil, fmt.Errorf("store %s has no queues: %w", i.address, errors.ErrUnsupported)
		}
		i.opened, i.client = p, queue.NewClient(queue.ClientOptions{Store: p.store.Queue})
	}
	return i.client, nil
}

// close ends it; no command runs any more.
func (i *inner) close() {
	if i == nil {
		return
	}
	if i.server != nil {
		_ = i.server.Close()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client != nil {
		i.client.Close()
		i.opened.close()
	}
}
