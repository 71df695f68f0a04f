//go:build linux

package file

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/lease"
)

// Read fulfils lease.Store.
func (l *leases) Read(ctx context.Context, keys []lease.Key) (lease.Reply, error) {
	l.sweep()
	return each(ctx, keys, func(k *lease.Key) (lease.Answer, error) {
		r, ok, err := l.read(*k, instantNow())
		if err != nil || !ok {
			return lease.Answer{Status: lease.Gone}, err
		}
		return lease.Answer{Status: lease.OK, Record: r}, nil
	})
}

// listMax bounds List.
const listMax = 10_000

// List fulfils lease.Store. It reads every file there is: names do not tell keys.
func (l *leases) List(ctx context.Context, prefix string, all bool) (lease.Reply, error) {
	var found []lease.Answer
	now := instantNow()
	err := l.scan(ctx, func(at seat, rec record, held bool) error {
		v := l.view(&rec, held, now)
		if !strings.HasPrefix(string(rec.Key), prefix) || !all && !v.Live(now.time()) {
			return nil
		}
		err := addRequests(at, &v)
		found = append(found, lease.Answer{Status: lease.OK, Record: v})
		return err
	})
	if err != nil {
		return lease.Reply{}, err
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Record.Key < found[j].Record.Key })
	return lease.Reply{Now: now.time(), Answers: found[:min(len(found), listMax)]}, nil
}

// scan visits the record of each lock file. It steps over those that cannot be read.
func (l *leases) scan(ctx context.Context, visit func(at seat, rec record, held bool) error) error {
	l.sweep()
	folder := filepath.Join(l.dir.path, leasesName)
	p, err := l.dir.places()
	if err != nil {
		return fail("list", folder, err)
	}
	names, err := p.leases.Names()
	if err != nil {
		return fail("list", folder, err)
	}
	for _, name := range names {
		if len(name) != 64 { // requests and temporary files have longer names
			continue
		}
		if err := ctx.Err(); err != nil {
			return fail("list", folder, err)
		}
		at := seat{p.leases, name}
		rec, held, ok, err := l.lookAt(at)
		switch {
		case err == nil && ok:
			err = visit(at, rec, held)
		case err == nil:
			err = at.readable()
		}
		if err != nil {
			err = l.unreadable.stepOver(at.String(), err)
		}
		if err != nil {
			return fail("read", filepath.Join(folder, name), err)
		}
	}
	return nil
}

// readable says why a lock file says nothing: it is damaged, or it is empty or gone, which is no error.
func (s seat) readable() error {
	fd, err := s.open(unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	_, err = readSound(fd, s.name)
	return err
}

// sweep lets go of our own holds whose time is up, if the timer is late.
func (l *leases) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := instantNow()
	for _, h := range l.holds {
		l.live(h.rec.Key, now)
	}
}

// read is the record of one key as others see it, if there is one.
func (l *leases) read(key lease.Key, now instant) (lease.Record, bool, error) {
	at, err := l.seat(key)
	if err != nil {
		return lease.Record{}, false, fail("read", l.lockPath(key), err)
	}
	rec, held, ok, err := l.lookAt(at)
	if err == nil && !ok {
		if err = at.readable(); err != nil {
			err = l.unreadable.stepOver(at.String(), err)
		}
	}
	if err != nil || !ok {
		return lease.Record{}, false, fail("read", at.String(), err)
	}
	v := l.view(&rec, held, now)
	return v, true, fail("read", at.String(), addRequests(at, &v))
}

// lookAt reads a lock file, if it is there and says anything.
func (l *leases) lookAt(at seat) (rec record, held, ok bool, err error) {
	fd, err := at.open(unix.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return rec, false, false, nil
	}
	if err != nil {
		return rec, false, false, err
	}
	defer closeFD(fd)
	rec, held, err = l.look(fd, at.name)
	return rec, held, rec.Key != "", err
}

func addRequests(at seat, v *lease.Record) error {
	r, err := readRequests(at.requests())
	r.addTo(v)
	return err
}
