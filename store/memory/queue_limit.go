package memory

import (
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// A limit is a key under which so many tasks may run (rule Q5).
type limit struct {
	lifecycle.Cap
	key     string
	token   lease.Token // the largest that was given under it
	running map[task.ID]*taskRow
	lines   map[subQueueName]*line
	// displacing are those that wait for it and declared Displace: a newer one supersedes them.
	displacing map[task.ID]*taskRow
}

// A line is where the tasks of one sub-queue wait for a limit. As many as there are free slots are its
// nominees: available, the first ones in order. All others are blocked, and no fetch looks at them.
type line struct {
	nominees taskHeap // the last one in order first: it is the one to step back
	blocked  taskHeap // the first one in order first
}

// declare is the limit that a spec names, made where it is new. The last declaration wins.
func (d *queueState) declare(s *task.Spec, now time.Time) *limit {
	h := s.Limit.Hash(s.Kind)
	l := d.limits[h]
	if l == nil {
		l = &limit{key: s.Limit.Key, Cap: lifecycle.Cap{Max: s.Limit.Slots()}, running: map[task.ID]*taskRow{}, lines: map[subQueueName]*line{}, displacing: map[task.ID]*taskRow{}}
		d.limits[h] = l
	}
	if was := l.Max; l.hears(s.Limit.Slots()) {
		kind, reason := driver.LimitEvent(l.key, was, l.Max, "")
		d.record(kind, reason, now)
		l.settle(d)
	}
	return l
}

// hears takes in what a task declares, and reports whether another number may run now. It stops nothing that runs.
func (l *limit) hears(slots int) bool {
	was := l.Max
	l.Hears(slots)
	return l.Max != was
}

// says takes in an operator's word, and records it.
func (l *limit) says(d *queueState, slots int, by string, now time.Time) {
	was := l.Max
	if !l.Says(slots, by, now) {
		return
	}
	kind, reason := lifecycle.SaidEvent(l.key, was, &l.Cap, by)
	d.record(kind, reason, now)
	l.settle(d)
}

// free is how many slots are free.
func (l *limit) free() int { return max(l.Max-len(l.running), 0) }

func (l *limit) occupy(d *queueState, t *taskRow) {
	l.running[t.ID] = t
	l.settle(d)
}

func (l *limit) vacate(d *queueState, t *taskRow) {
	delete(l.running, t.ID)
	l.settle(d)
}

// lineUp puts t into its line.
func (l *limit) lineUp(d *queueState, t *taskRow) {
	at := subQueueName{t.Queue, t.Kind}
	o := l.lines[at]
	if o == nil {
		o = &line{blocked: taskHeap{before: ranks, pos: position},
			nominees: taskHeap{before: func(x, y *taskRow) bool { return ranks(y, x) }, pos: func(t *taskRow) *int { return &t.nominated }}}
		l.lines[at] = o
	}
	t.State = task.Blocked
	o.blocked.push(t)
	o.settle(d, l.free())
}

// leaveLine takes t out of its line.
func (l *limit) leaveLine(d *queueState, t *taskRow) {
	if o := l.lines[subQueueName{t.Queue, t.Kind}]; o != nil {
		o.blocked.drop(t)
		o.nominees.drop(t)
		o.settle(d, l.free())
		if len(o.blocked.tasks)+len(o.nominees.tasks) == 0 {
			delete(l.lines, subQueueName{t.Queue, t.Kind})
		}
	}
}

// settle does what a changed number of free slots asks for, in every line (rule Q5).
func (l *limit) settle(d *queueState) {
	for _, o := range l.lines {
		o.settle(d, l.free())
	}
}

// settle makes the nominees the first ones in order, as many as there are free slots.
func (o *line) settle(d *queueState, free int) {
	for len(o.nominees.tasks) > free {
		o.stepBack(d)
	}
	for len(o.nominees.tasks) < free && o.blocked.first() != nil {
		o.nominate(d)
	}
	for last, next := o.nominees.first(), o.blocked.first(); last != nil && next != nil && ranks(next, last); last, next = o.nominees.first(), o.blocked.first() {
		o.stepBack(d)
		o.nominate(d)
	}
}

func (o *line) nominate(d *queueState) {
	t := o.blocked.first()
	o.blocked.drop(t)
	o.nominees.push(t)
	d.open(t)
}

func (o *line) stepBack(d *queueState) {
	t := o.nominees.first()
	o.nominees.drop(t)
	d.subQueue(t).readyFor(t).drop(t)
	t.State = task.Blocked
	o.blocked.push(t)
}

// waiting is how many tasks the limit keeps from running.
func (l *limit) waiting() (n int) {
	for _, o := range l.lines {
		n += len(o.blocked.tasks)
	}
	return n
}
