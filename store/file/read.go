//go:build linux

package file

import (
	"context"
	"os"
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
	err := l.scan(ctx, func(path string) error {
		rec, held, ok, err := l.lookAt(path)
		if err != nil || !ok || !strings.HasPrefix(string(rec.Key), prefix) {
			return err
		}
		if v := l.view(&rec, held, now); all || v.Live(now.time()) {
			if err := addRequests(path, &v); err != nil {
				return err
			}
			found = append(found, lease.Answer{Status: lease.OK, Record: v})
		}
		return nil
	})
	if err != nil {
		return lease.Reply{}, err
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Record.Key < found[j].Record.Key })
	return lease.Reply{Now: now.time(), Answers: found[:min(len(found), listMax)]}, nil
}

// scan visits each lock file.
func (l *leases) scan(ctx context.Context, visit func(path string) error) error {
	l.sweep()
	folder := filepath.Join(l.dir.path, "leases")
	f, err := os.Open(folder)
	if err != nil {
		return fail("list", folder, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
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
		if err := visit(filepath.Join(folder, name)); err != nil {
			return fail("read", filepath.Join(folder, name), err)
		}
	}
	return nil
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
	path := l.lockPath(key)
	rec, held, ok, err := l.lookAt(path)
	if err != nil || !ok {
		return lease.Record{}, false, fail("read", path, err)
	}
	v := l.view(&rec, held, now)
	return v, true, fail("read", path, addRequests(path, &v))
}

// lookAt reads a lock file, if it is there and says anything.
func (l *leases) lookAt(path string) (rec record, held, ok bool, err error) {
	fd, err := open(path, unix.O_RDONLY, 0)
	if os.IsNotExist(err) {
		return rec, false, false, nil
	}
	if err != nil {
		return rec, false, false, err
	}
	defer closeFD(fd)
	rec, held, err = l.look(fd)
	return rec, held, rec.Key != "", err
}

func addRequests(path string, v *lease.Record) error {
	r, err := readRequests(requestPath(path))
	r.addTo(v)
	return err
}
