package mysql

import (
	"database/sql"
	"sync"

	"github.com/dibs-run/dibs/queue/driver"
)

const (
	// mostLooked is at how many sub-queues one fetch, or one call of Maintain, looks: each costs some statements. Of
	// more, those have a turn in which something was found last, as far as there is room, and some of the others.
	mostLooked = 200
	mostBusy   = mostLooked * 3 / 4
	// mostNames is how many names of sub-queues one fetch reads.
	mostNames = 500
)

// subQueues are the sub-queues of the namespace that this process knows, in the order in which it learned of them.
// None of their rows ever goes away.
type subQueues struct {
	mu    sync.Mutex
	there map[subQueueName]bool
	all   []subQueueName
	subs  []int64        // their numbers
	next  map[string]int // where the next turn begins, of each asker
	// read is the name behind which the next page of names begins. round says that all of them were read once.
	read  subQueueName
	round bool
}

func (s *subQueues) knows(at subQueueName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.there[at]
}

// learn adds those that are new, and returns them.
func (s *subQueues) learn(names ...subQueueName) (fresh []subQueueName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range names {
		if !s.there[at] {
			if s.there == nil {
				s.there, s.next = map[subQueueName]bool{}, map[string]int{}
			}
			s.there[at] = true
			s.all, s.subs, fresh = append(s.all, at), append(s.subs, subQueueNumber(at)), append(fresh, at)
		}
	}
	return fresh
}

// turn returns those that asker looks at now, mostLooked at most, of those that fit.
func (s *subQueues) turn(asker string, fits func(subQueueName) bool, busy func(int64) bool) (now []subQueueName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, from := len(s.all), 0
	if n > 0 {
		from = s.next[asker] % n
	}
	var others []int
	for i := range n {
		switch x := (from + i) % n; {
		case !fits(s.all[x]):
		case len(now) < mostBusy && busy(s.subs[x]):
			now = append(now, s.all[x])
		case len(others) < mostLooked:
			others = append(others, i)
		}
	}
	for _, i := range others[:min(len(others), mostLooked-len(now))] {
		now = append(now, s.all[(from+i)%n])
		s.next[asker] = from + i + 1
	}
	return now
}

// addNames asks for the next page of names. learn is called once they were read, and returns those that are new.
func (s *subQueues) addNames(p *packet, ns []byte) (read reader, learn func() []subQueueName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue, kind := []byte(s.read.queue), []byte(s.read.kind)
	p.add("subqueues", ns, queue, queue, kind, mostNames)
	var names []subQueueName
	read = func(r *sql.Rows) error {
		var at subQueueName
		err := r.Scan(&at.queue, &at.kind)
		names = append(names, at)
		return err
	}
	return read, func() []subQueueName {
		s.mu.Lock()
		if len(names) < mostNames {
			s.read, s.round = subQueueName{}, true
		} else {
			s.read = names[mostNames-1]
		}
		s.mu.Unlock()
		return s.learn(names...)
	}
}

// complete reports whether this process has read all names once.
func (s *subQueues) complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.round
}

// A turn is the sub-queues at which a fetch looks, and which others fit.
type turn struct {
	names []subQueueName
	fits  func(subQueueName) bool
}

// fits says which sub-queues a worker fetches from.
func fits(r *driver.FetchRequest) func(subQueueName) bool {
	queues, kinds := setOf(r.Queues), setOf(r.Kinds)
	return func(at subQueueName) bool { return queues[at.queue] && (len(kinds) == 0 || kinds[at.kind]) }
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}
