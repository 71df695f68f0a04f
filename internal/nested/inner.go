package nested

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/run/command"
)

// An Inner lets the commands of this process reach its store. It is safe for concurrent use.
type Inner struct {
	o      InnerOptions
	server *Server // nil where there can be none

	mu     sync.Mutex
	client *queue.Client
	let    func()
}

// InnerOptions say how commands find the store.
type InnerOptions struct {
	// File is the path of the file that names the store; empty if no file does.
	File string
	// Default states that commands which name no store find the same one.
	Default bool
	// Open opens the store for its queues, and returns a function that closes it. It is called when the first task
	// is enqueued.
	Open func(context.Context) (q driver.Store, letGo func(), err error)
	Log  *slog.Logger
}

// NewInner returns an Inner; the process's commands may be started from then on.
func NewInner(o InnerOptions) *Inner {
	i := &Inner{o: o}
	var err error
	if i.server, err = Listen(i.enqueue); err != nil {
		i.server = nil
		o.Log.Debug("commands cannot enqueue through this process", "event", "nested-unreachable", "error", err)
	}
	return i
}

// Environ returns what all commands find about the store: the name of the file that names it, if a file does.
func (i *Inner) Environ(base []string) []string {
	env := slices.DeleteFunc(command.WithoutStore(base), func(v string) bool { return strings.HasPrefix(v, "DIBS_STORE_FILE=") })
	if i.o.File != "" {
		env = append(env, "DIBS_STORE_FILE="+i.o.File)
	}
	return env
}

// Enter is a command.Entrance. If nobody named a store, commands of this process's own user find the same directory.
func (i *Inner) Enter(u *command.User) (env []string, leave func()) {
	uid := uint32(os.Geteuid())
	switch {
	case u != nil:
		uid = u.UID
	case i.o.Default:
		return nil, func() {}
	}
	variable, leave := Variable+"="+Unreachable, func() {}
	if i.server != nil {
		variable, leave = i.server.Admit(uid)
	}
	return []string{variable}, leave
}

// enqueue adds a command's tasks over a connection of its own, so that no run waits for it. The connection is opened
// when it is first needed.
func (i *Inner) enqueue(ctx context.Context, specs []queue.Spec) ([]queue.Enqueued, error) {
	c, err := i.queue(ctx)
	if err != nil {
		return nil, err
	}
	return c.EnqueueMany(ctx, specs)
}

func (i *Inner) queue(ctx context.Context) (*queue.Client, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client == nil {
		q, let, err := i.o.Open(ctx)
		if err != nil {
			return nil, err
		}
		i.client, i.let = queue.NewClient(queue.ClientOptions{Store: q}), let
	}
	return i.client, nil
}

// Close closes it; no command may run any more.
func (i *Inner) Close() {
	if i.server != nil {
		_ = i.server.Close()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.client != nil {
		i.client.Close()
		i.let()
	}
}
