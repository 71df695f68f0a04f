package command

import (
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/dibs-run/dibs/internal/clock"
	"github.com/dibs-run/dibs/internal/guardian"
	"github.com/dibs-run/dibs/internal/guardian/cgroup"
	"github.com/dibs-run/dibs/internal/guardian/proc"
)

// At the instant of a kill the supervisor does not ask the guardian, which may be stopped: it kills by
// itself. The guardian does the same, for a supervisor that is stopped.

// patience is how long warden and guardian have for what takes them a millisecond, once nothing of the
// command lives any more. Then they are killed, and only how the command ended is lost.
const patience = 2 * time.Second

// bounds are the instants of the boot clock at which everything is to be killed; zero is none.
type bounds struct {
	mu       sync.Mutex
	deadline Deadline
	stopAt   time.Duration
	timer    *time.Timer
	alarm    guardian.Alarm // continues this process, should it be stopped then
	over     bool
}

// prepare makes what can fail, before anything is started.
func (b *bounds) prepare(d Deadline) (err error) {
	b.deadline = d
	if b.alarm, err = guardian.NewAlarm(syscall.SIGCONT); err != nil {
		return err
	}
	b.timer = time.NewTimer(time.Hour)
	b.set()
	return nil
}

// open has enforce called at the first of the bounds.
func (b *bounds) open(enforce func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(time.Hour, enforce)
	b.set()
}

func (b *bounds) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.over = true
		b.timer.Stop()
		b.alarm.Delete()
	}
}

func (b *bounds) extend(d Deadline) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deadline = d
	b.set()
}

func (b *bounds) stop(at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopAt == 0 || at < b.stopAt {
		b.stopAt = at
	}
	b.set()
}

// set sets timer and alarm. A stopped process is continued only where its guardian has had the time to act before.
func (b *bounds) set() {
	if b.over {
		return
	}
	switch at := b.first(); at {
	case 0:
		b.timer.Stop()
		_ = b.alarm.Set(0)
	default:
		b.timer.Reset(at - clock.System.Boot())
		_ = b.alarm.Set(at + 3*guardian.LastResort(b.deadline.Term, b.deadline.Kill)/2) // it fails for no alarm that there is
	}
}

func (b *bounds) first() time.Duration {
	if kill := b.deadline.Kill; b.stopAt == 0 || (kill != 0 && kill < b.stopAt) {
		return kill
	}
	return b.stopAt
}

// due reports whether the time has come, and whether it is the deadline's. If not, the timer is set anew: it stands
// still in suspend.
func (b *bounds) due() (due, byDeadline bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, now := b.first(), clock.System.Boot()
	if b.over || at == 0 {
		return false, false
	}
	if now < at {
		b.set()
		return false, false
	}
	return true, b.deadline.Kill != 0 && b.deadline.Kill <= now
}

// enforce kills everything in rounds once a bound has passed, until nothing is left. A guardian that
// does not say so by itself is killed too: then watch looks for what remains.
func (p *Process) enforce() {
	due, byDeadline := p.bounds.due()
	if !due {
		return
	}
	if byDeadline {
		p.overdue.Store(true)
	}
	p.enforcing.Do(func() {
		var idle time.Time
		for wait := time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
			p.wake()
			switch left, err := p.killWork(); {
			case err != nil || left > 0:
				idle = time.Time{}
			case idle.IsZero():
				idle = time.Now()
			case time.Since(idle) > guardian.Unhurried, p.overdue.Load() && time.Since(idle) > patience:
				p.killGuards()
			}
			select {
			case <-p.empty:
				return
			case <-time.After(wait):
			}
		}
	})
}

// killWork kills once what lives of the command, and says how many processes that were.
func (p *Process) killWork() (left int, err error) {
	if p.isEmpty() {
		return 0, nil
	}
	if p.madeCgroup {
		_ = cgroup.Kill(p.cgroup) // the nearest way
	}
	if p.pid > 1 && !p.told.Load() { // until then the number is the command's
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
	return p.tree().Kill()
}

// wake continues warden and guardian, should somebody have stopped them.
func (p *Process) wake() {
	p.warden.signal(syscall.SIGCONT)
	p.guardian.signal(syscall.SIGCONT)
}

// killGuards kills warden and guardian, which is safe only once nothing of the command lives: the
// guardian starts nothing any more then.
func (p *Process) killGuards() {
	p.guardian.signal(syscall.SIGKILL)
	p.warden.signal(syscall.SIGKILL)
}

// A helper is a process of ours, and no other that has got its number since.
type helper struct {
	pid   int
	start uint64
}

func helperOf(pid int) helper {
	s, _ := proc.Read(pid) // one that cannot be read is taken for dead
	return helper{pid, s.Start}
}

func (h helper) alive() bool {
	s, err := proc.Read(h.pid)
	return h.pid != 0 && err == nil && s.Start == h.start && s.Alive()
}

func (h helper) signal(s syscall.Signal) {
	if h.alive() && h.pid != os.Getpid() {
		_ = syscall.Kill(h.pid, s)
	}
}
