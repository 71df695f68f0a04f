//go:build linux

package million

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
)

const workerEnv = "DIBS_MILLION_WORKER"

// The test binary is its own worker.
func TestMain(m *testing.M) {
	told := os.Getenv(workerEnv)
	if told == "" {
		os.Exit(m.Run())
	}
	if err := runWorker(told); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// A part is what a worker process is told to do.
type part struct {
	Store, Ledger string
	TTL           time.Duration
	// Slots and Prefetch are as in queue.WorkerOptions.
	Slots, Prefetch int
}

// args are a task's.
type args struct {
	N int `json:"n"`
}

var kind = queue.Define[args]("one")

// runWorker is the main function of a worker process.
func runWorker(told string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM) // before anything else takes time
	defer stop()
	go func() { // the test's end is ours, however it ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var p part
	if err := json.Unmarshal([]byte(told), &p); err != nil {
		return err
	}
	notes, err := newScribe(p.Ledger, strconv.Itoa(os.Getpid()))
	if err != nil {
		return err
	}
	s, err := open(context.Background(), p.Store, false)
	if err != nil {
		return err
	}
	keeper, err := lease.NewKeeper(lease.Options{Store: leases{s.Leases, notes}, Notify: s.Notify, Margin: lease.MarginFor(p.TTL)})
	if err != nil {
		return err
	}
	mux := &queue.Mux{}
	kind.Handle(mux, func(context.Context, *queue.Run, args) error { return nil }, queue.Handler{})
	w, err := queue.NewWorker(queue.WorkerOptions{Store: watched{s.Queue, notes}, Keeper: keeper, Mux: mux, Slots: p.Slots, Prefetch: p.Prefetch,
		Holder: lease.Holder{Host: "million", PID: os.Getpid()}, Log: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// open opens a store, which may just be busy.
func open(ctx context.Context, address string, init bool) (*store.Store, error) {
	c, err := store.Parse(address)
	if err != nil {
		return nil, err
	}
	c.Init = init
	for {
		bound, cancel := context.WithTimeout(ctx, 10*time.Second)
		s, err := all.OpenConfig(bound, c)
		cancel()
		if !errors.Is(err, lease.ErrUnavailable) || ctx.Err() != nil {
			return s, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// leases writes down when the store says that a lease is held or released.
type leases struct {
	lease.Store
	notes *scribe
}

func (l leases) Acquire(ctx context.Context, reqs []lease.AcquireRequest) (lease.Reply, error) {
	return l.note(renewed, func(i int) lease.Nonce { return reqs[i].Holder.ID }, func() (lease.Reply, error) { return l.Store.Acquire(ctx, reqs) })
}

func (l leases) Renew(ctx context.Context, reqs []lease.RenewRequest) (lease.Reply, error) {
	return l.note(renewed, func(i int) lease.Nonce { return reqs[i].Ref.Owner }, func() (lease.Reply, error) { return l.Store.Renew(ctx, reqs) })
}

func (l leases) Release(ctx context.Context, refs []lease.Ref) (lease.Reply, error) {
	return l.note(released, func(i int) lease.Nonce { return refs[i].Owner }, func() (lease.Reply, error) { return l.Store.Release(ctx, refs) })
}

func (l leases) note(what int64, owner func(i int) lease.Nonce, ask func() (lease.Reply, error)) (lease.Reply, error) {
	begun := time.Now().UnixMicro()
	reply, err := ask()
	for i, a := range reply.Answers {
		if err == nil && a.Status == lease.OK {
			l.notes.write(record{What: what, Shift: shiftOf(lease.Ref{Owner: owner(i)}), Token: lease.Token(begun)})
		}
	}
	return reply, err
}

// watched writes down what the store says, before its worker hears of it.
type watched struct {
	driver.Store
	notes *scribe
}

func (w watched) Register(ctx context.Context, p driver.Process) error {
	w.notes.write(record{What: joined, Shift: shiftOf(p.Lease)})
	return w.Store.Register(ctx, p)
}

func (w watched) Fetch(ctx context.Context, r driver.FetchRequest) (driver.Fetch, error) {
	f, err := w.Store.Fetch(ctx, r)
	records := make([]record, len(f.Tasks))
	for i, t := range f.Tasks {
		records[i] = record{What: fetched, Shift: shiftOf(r.Worker), Task: t.ID, Token: t.Token}
	}
	w.notes.write(records...)
	return f, err
}

func (w watched) Finish(ctx context.Context, worker lease.Ref, ends []driver.Completion) ([]driver.Status, error) {
	st, err := w.Store.Finish(ctx, worker, ends)
	records := make([]record, 0, len(ends))
	for i, c := range ends {
		r := record{What: ended, Shift: shiftOf(worker), Task: c.ID, Token: c.Token}
		switch {
		case err != nil && c.Verdict == driver.Success:
			continue
		case err != nil: // the store may have taken it all the same
		case st[i] == driver.Withheld:
			continue
		case st[i] != driver.OK:
			r.What = refused
		case c.Verdict == driver.Success:
			r.What = completed
		}
		records = append(records, r)
	}
	w.notes.write(records...)
	return st, err
}
