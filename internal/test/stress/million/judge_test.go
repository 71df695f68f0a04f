//go:build linux

package million

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A judge compares what the processes were told with what the store says at the end.
type judge struct {
	stories map[task.ID]*story
	over    map[uint64]bool // sessions that ended without giving their tasks back: killed, or their lease was lost
	mute    map[uint64]bool // of these, those that the store may have answered without anybody to write it down
	wrong   map[string]int
	first   []string // examples

	// What happened, and may: fetches after the first, completions that a killed worker could not write down, reports
	// that were refused, and sessions whose lease was lost.
	repeats, unwritten, refusals, lost int
}

// A story is what the ledgers tell of one task.
type story struct {
	acked   bool
	fetches []given
	done    lease.Token // under which its completion was accepted; 0: under none
}

type given struct {
	token    lease.Token
	shift    uint64
	returned bool
}

func newJudge(acked []task.ID, books []book, ttl time.Duration) *judge {
	j := &judge{stories: make(map[task.ID]*story, len(acked)), over: map[uint64]bool{}, mute: map[uint64]bool{}, wrong: map[string]int{}}
	for _, id := range acked {
		if s := j.story(id); s.acked {
			j.find("two enqueued tasks have one id", "task %d", id)
		} else {
			s.acked = true
		}
	}
	for i := range books {
		j.readShifts(&books[i], ttl)
	}
	// All that was given first: a completion is judged by who was given the task before and since.
	for _, what := range []int64{fetched, ended, completed, refused} {
		for i := range books {
			for _, r := range books[i].records {
				if r.What == what {
					j.take(&books[i], r)
				}
			}
		}
	}
	return j
}

func (j *judge) story(id task.ID) *story {
	s := j.stories[id]
	if s == nil {
		s = &story{}
		j.stories[id] = s
	}
	return s
}

// find notes what may not be.
func (j *judge) find(what, format string, args ...any) {
	if j.wrong[what]++; j.wrong[what] <= 5 {
		j.first = append(j.first, what+": "+fmt.Sprintf(format, args...))
	}
}

// readShifts finds out which sessions are over. All of a killed process are, and all but the last of any other, which
// is as well if its lease may have ended.
func (j *judge) readShifts(b *book, ttl time.Duration) {
	var shifts []uint64
	for _, r := range b.records {
		if r.What == joined {
			shifts = append(shifts, r.Shift)
		}
	}
	for i, s := range shifts {
		switch {
		case b.stale:
			j.over[s] = true
		case i+1 < len(shifts), !b.killed && !b.held(s, ttl):
			j.over[s], j.mute[s] = true, true
			j.lost++
		case b.killed:
			j.over[s], j.mute[s] = true, true
		}
	}
}

// held reports whether a session had its lease until it released it: it was renewed each time before it could lapse.
func (b *book) held(shift uint64, ttl time.Duration) bool {
	var since int64
	for _, r := range b.records {
		if r.Shift != shift || r.What != renewed && r.What != released {
			continue
		}
		if since > 0 && r.At-since > ttl.Microseconds() {
			return false
		}
		if since = int64(r.Token); r.What == released {
			return true
		}
	}
	return false
}

func (j *judge) take(b *book, r record) {
	s := j.story(r.Task)
	switch r.What {
	case fetched:
		if slices.ContainsFunc(s.fetches, func(g given) bool { return g.token == r.Token }) {
			j.find("a task was given twice under one token", "task %d, token %d", r.Task, r.Token)
		}
		s.fetches = append(s.fetches, given{token: r.Token, shift: r.Shift})
	case ended:
		for i := range s.fetches {
			s.fetches[i].returned = s.fetches[i].returned || s.fetches[i].token == r.Token
		}
	case completed:
		switch {
		case b.stale:
			j.find("a worker without a lease completed a task", "task %d, token %d", r.Task, r.Token)
		case s.done != 0 && s.done != r.Token:
			j.find("a task was completed twice", "task %d, tokens %d and %d", r.Task, s.done, r.Token)
		}
		s.done = max(s.done, r.Token)
	case refused:
		j.refusals++
	}
}

// see compares a task with its story.
func (j *judge) see(t *driver.Task) {
	s := j.stories[t.ID]
	if s == nil {
		j.find("a task is there that nobody enqueued and nobody was given", "task %d", t.ID)
		return
	}
	delete(j.stories, t.ID) // what is left at the end is not in the store
	if t.State != task.Succeeded {
		j.find("a task is not done", "task %d is %s: %s", t.ID, t.State, t.Reason)
		return
	}
	slices.SortFunc(s.fetches, func(a, b given) int { return int(a.token - b.token) })
	last := given{}
	if n := len(s.fetches); n > 0 {
		last = s.fetches[n-1]
		j.repeats += n - 1
	}
	switch {
	case s.done == 0:
		j.unwrite(t, last)
	case s.done < last.token:
		j.find("a stale worker completed a task", "task %d, token %d, and it was given under %d", t.ID, s.done, last.token)
	case s.done != t.Token:
		j.find("the store names another completion than the one it accepted", "task %d, tokens %d and %d", t.ID, t.Token, s.done)
	}
	for _, g := range s.fetches {
		if g.token != t.Token && !g.returned && !j.over[g.shift] {
			j.find("a task was taken from a worker that lived", "task %d, token %d", t.ID, g.token)
		}
	}
	if t.Attempts != 1 {
		j.find("a task has not one attempt", "task %d has %d", t.ID, t.Attempts)
	}
}

// unwrite takes in a task that no worker wrote down as completed. One that was killed may have done it, and so may one
// that lost its lease while it waited for an answer.
func (j *judge) unwrite(t *driver.Task, last given) {
	j.unwritten++
	switch {
	case last.token == t.Token && !j.mute[last.shift]:
		j.find("a task is done, and the worker that lived does not know", "task %d, token %d", t.ID, t.Token)
	case last.token != t.Token && len(j.mute) == 0:
		j.find("a task is done by nobody", "task %d, token %d", t.ID, t.Token)
	}
}

// end says what is wrong; unsure is how many were enqueued without an answer.
func (j *judge) end(unsure int) error {
	for id, s := range j.stories {
		if s.acked || s.done != 0 {
			j.find("a task is lost", "task %d", id)
		}
	}
	if len(j.wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%v (%d tasks were enqueued without an answer)\n%s", j.wrong, unsure, strings.Join(j.first, "\n"))
}
