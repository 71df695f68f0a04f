//go:build linux

package stress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
)

// ttl is short, so that the key of a killed client is soon free; the margin shrinks with it. It is long enough
// for a busy machine: nothing can stop Go's work whose process gets no time, from TERM to the end of its lease.
const ttl = 6 * time.Second

// A client takes keys until it has done its part. Those of one process share a Keeper, and so
// their requests travel together.
type client struct {
	*board
	slot  int
	quota int64
	guard lease.Guard
	rnd   *rand.Rand
}

// A part is what a process is told to do.
type part struct {
	Board, Store string
	First, Count int // the slots of its clients
	Quota        int64
	Lie          string
}

func keyOf(i int) lease.Key { return lease.Key(fmt.Sprintf("stress/%d", i)) }

// runClients is the main function of a process of clients.
func runClients(told string) error {
	go func() { // the test's end is ours, however it ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var p part
	if err := json.Unmarshal([]byte(told), &p); err != nil {
		return err
	}
	b, err := openBoard(p.Board)
	if err != nil {
		return err
	}
	s, err := openPatiently(b, p.Store)
	if err != nil {
		return err
	}
	keeper, err := lease.NewKeeper(lease.Options{Store: lie(p.Lie, s.Leases), Notify: s.Notify, Margin: lease.MarginFor(ttl)})
	if err != nil {
		return err
	}
	ended := make(chan error, p.Count)
	for slot := p.First; slot < p.First+p.Count; slot++ {
		c := &client{board: b, slot: slot, quota: p.Quota, rnd: rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(slot)))}
		c.guard = lease.Guard{Keeper: keeper, OnOverrun: c.overran}
		go func() { ended <- c.run(context.Background()) }()
	}
	for range p.Count {
		if err := <-ended; err != nil {
			return err
		}
	}
	keeper.Close()
	return s.Close()
}

func (c *client) run(ctx context.Context) error {
	for c.done[c.slot].Load() < c.quota {
		if err := c.cycle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openPatiently opens a store whose server may just be away.
func openPatiently(b *board, address string) (*store.Store, error) {
	c, err := store.Parse(address)
	if err != nil {
		return nil, err
	}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		s, err := all.OpenConfig(ctx, c)
		cancel()
		if !errors.Is(err, lease.ErrUnavailable) {
			return s, err
		}
		b.unavailable.Add(1)
		time.Sleep(100 * time.Millisecond)
	}
}

// cycle takes a key, works and releases it. Only an error that no outage explains is returned.
func (c *client) cycle(ctx context.Context) error {
	key := c.rnd.IntN(keys)
	// Half of the tries do not wait, and go on to another key.
	want := lease.Want{Key: keyOf(key), Wait: time.Duration(c.rnd.IntN(2)) * time.Second,
		Holder:     lease.Holder{Host: "stress", PID: os.Getpid(), Command: strconv.Itoa(c.slot)},
		OnHeldBack: func(time.Duration) { c.heldBack.Add(1) }}
	err := c.guard.Run(ctx, want, func(ctx context.Context, l *lease.Lease) error { return c.work(ctx, key, l) })
	switch {
	case err == nil:
		c.done[c.slot].Add(1)
	case errors.Is(err, errOverlap), errors.Is(err, errStale):
		fmt.Printf("%s: %v\n", want.Key, err)
	case errors.Is(err, lease.ErrHeld):
		c.held.Add(1)
	case errors.Is(err, lease.ErrLost):
		c.lost.Add(1)
	case errors.Is(err, lease.ErrUnavailable), errors.Is(err, lease.ErrNotReleased):
		c.unavailable.Add(1)
		time.Sleep(20*time.Millisecond + rand.N(40*time.Millisecond))
	default:
		return err
	}
	return nil
}

// work is watched by the observer from beginning to end.
func (c *client) work(ctx context.Context, key int, l *lease.Lease) error {
	me := newVisit()
	err := c.enter(key, me, l.Token())
	if errors.Is(err, errOverlap) {
		return err
	}
	c.dwell(ctx)
	return errors.Join(err, c.leave(key, me))
}

// dwell is some microseconds, now and then a millisecond, or as long as the test says.
func (c *client) dwell(ctx context.Context) {
	for end := time.Now().Add(time.Duration(c.rnd.IntN(20)) * time.Microsecond); time.Now().Before(end); {
	}
	if c.rnd.IntN(64) == 0 {
		time.Sleep(time.Millisecond)
	}
	for c.lingering.Load() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// overran hears of work that was told to stop and is still there at the instant at which it must
// be gone. After a refusal that instant is at once, which no work can meet.
func (c *client) overran(l *lease.Lease) {
	if loss := l.Loss(); loss.Kill != 0 {
		c.overruns.Add(1)
		fmt.Printf("%s: the work outlasted its lease: %v\n", l.Key(), loss.Err)
	}
}
