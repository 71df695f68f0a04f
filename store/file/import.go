//go:build linux

package file

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed" // the statements
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
)

//go:embed queries/runs_unfinished.sql
var sqlRunsUnfinished string

// journalLong is the size from which a process that closes a run also imports the journal, so that it does not grow
// for ever on a host where nobody reads history. It is some 2,000 runs.
const journalLong = 1 << 20

func (s *db) importIfLong(ctx context.Context) error {
	if s.leases.journal.size() < journalLong {
		return nil
	}
	// The run is recorded whatever becomes of this, and the next one tries again.
	_ = s.catchUp(ctx)
	return nil
}

// catchUp brings into the database what is known of runs without a tick: the journal has those that ended, the lock
// files have those that go on and those whose hold died without a word.
//
// The order matters. A run is found dead first; then the journal is read; only a run that the journal does not know
// either has crashed. All of it may happen twice, and in two processes at once.
func (s *db) catchUp(ctx context.Context) error {
	seen, spent, err := s.leases.runs(ctx)
	if err != nil {
		return err
	}
	news, err := s.news(ctx, seen)
	if err == nil && news {
		err = s.absorb(ctx, seen)
	}
	if err != nil {
		return err
	}
	// Their outcomes are recorded now, so nothing remains of keys that are never used again.
	return s.leases.removeSpent(spent)
}

func (s *db) absorb(ctx context.Context, seen []seenRun) error {
	var chapters []*chapter
	err := s.write(ctx, func(tx *sql.Tx) error {
		dead, err := s.dead(ctx, tx, seen)
		if err != nil {
			return err
		}
		if chapters, err = s.leases.journal.take(); err != nil {
			return err
		}
		if err := s.addChapters(ctx, tx, chapters); err != nil {
			return err
		}
		for _, r := range seen {
			if err := insertRun(ctx, tx, r.runRow); err != nil {
				return err
			}
		}
		for _, r := range dead {
			if err := closeRun(ctx, tx, crashed(r.Record, instantNow())); err != nil {
				return err
			}
		}
		return nil
	})
	closeAll(chapters, err == nil)
	return err
}

// A seenRun is an unclosed run of a lock file, and whether its hold lives.
type seenRun struct {
	runRow
	live bool
}

// runs reads the unclosed runs of all lock files, and which holds of single use are dead.
func (l *leases) runs(ctx context.Context) (all []seenRun, spent []lease.Ref, err error) {
	err = l.scan(ctx, func(_ seat, rec record, held bool) error {
		if rec.Run != nil {
			all = append(all, seenRun{runRow{Record: *rec.Run, key: rec.Key}, held && !rec.released()})
		}
		if rec.Key.Once() && !held {
			spent = append(spent, rec.ref())
		}
		return nil
	})
	return all, spent, err
}

func (l *leases) removeSpent(refs []lease.Ref) error {
	for _, ref := range refs {
		at, err := l.seat(ref.Key)
		if err == nil {
			err = l.removeOne(ref, at)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail("remove", l.lockPath(ref.Key), err)
		}
	}
	return nil
}

// removeOne takes the lock first, so that it removes nobody's hold.
func (l *leases) removeOne(ref lease.Ref, at seat) error {
	fd, err := at.open(unix.O_RDWR)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if ok, err := tryLock(fd, fd); err != nil || !ok {
		return err
	}
	defer unlock(fd)
	if same, err := at.same(fd); err != nil || !same {
		return err
	}
	if rec, err := readRecord(fd, at.name); err != nil || rec.ref() != ref {
		return err
	}
	_ = at.requests().remove()
	return at.remove()
}

// news says whether there is anything to write. Mostly there is not, and readers then only read.
func (s *db) news(ctx context.Context, seen []seenRun) (bool, error) {
	if pending, err := s.leases.journal.pending(); err != nil || pending {
		return pending, fail("read", s.leases.journal.path, err)
	}
	p, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	for _, r := range seen {
		old, known, err := getRun(ctx, p.reader, r.ID)
		if errors.Is(err, errDamaged) {
			continue
		}
		if err != nil {
			return false, s.fail("read", err)
		}
		if !known || old.Outcome == "" && !r.live {
			return true, nil
		}
	}
	dead, err := s.dead(ctx, p.reader, nil)
	return len(dead) > 0, s.fail("read", err)
}

// dead are the unfinished runs, of the lock files and of the database, whose hold is dead.
func (s *db) dead(ctx context.Context, q querier, seen []seenRun) ([]runRow, error) {
	var dead []runRow
	for _, r := range seen {
		if !r.live {
			dead = append(dead, r.runRow)
		}
	}
	unfinished, err := query(ctx, q, readRun, sqlRunsUnfinished)
	if err != nil {
		return nil, err
	}
	for _, r := range unfinished {
		live, err := s.leases.alive(r.ref())
		if err = cmp.Or(err, r.damaged); err != nil { // of one that cannot be read nobody knows that it is dead
			if err = s.leases.unreadable.stepOver("run "+r.ID, err); err != nil {
				return nil, err
			}
		} else if !live {
			dead = append(dead, r)
		}
	}
	return dead, nil
}

func (s *db) addChapters(ctx context.Context, tx *sql.Tx, chapters []*chapter) error {
	for _, c := range chapters {
		if err := addRuns(ctx, tx, c.runs); err != nil {
			return err
		}
		// A chapter that stays will be read again: its bad lines are reported when it goes.
		if len(c.bad) == 0 || !c.whole {
			continue
		}
		if err := s.leases.journal.setAside(c.bad); err != nil {
			return err
		}
		if err := insertEvent(ctx, tx, history.Event{Kind: "journal-damaged", Reason: fmt.Sprintf(
			"%d lines of the journal of runs could not be read, as a loss of power or a full disk leaves them; they are kept in %s",
			len(c.bad), s.leases.journal.badPath())}); err != nil {
			return err
		}
	}
	return nil
}

// addRuns inserts the runs that are unknown and ends those that are known as unfinished.
// There may be thousands, so their statements are prepared once.
func addRuns(ctx context.Context, tx *sql.Tx, runs []run.Record) error {
	insert, err := tx.PrepareContext(ctx, sqlRunInsert)
	if err != nil {
		return err
	}
	defer insert.Close()
	end, err := tx.PrepareContext(ctx, sqlRunClose)
	if err != nil {
		return err
	}
	defer end.Close()
	for _, r := range runs {
		args, err := insertArgs(runRow{Record: r})
		if err != nil {
			return err
		}
		result, err := insert.ExecContext(ctx, args...)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil {
			return err
		} else if n == 1 {
			continue
		}
		if args, err = closeArgs(r); err != nil {
			return err
		}
		if _, err := end.ExecContext(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
