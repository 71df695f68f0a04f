package storetest

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// Transactions take no limit's lock (rule Q5), so what they enqueue gets its place in line later.
var linePromises = []pledge{
	// Holds: promise 22.
	{"a line goes on without its first, whoever began it", lineGoesOn},
	{"a duplicate takes nobody's place in line", lineDuplicate},
	{"what a transaction replaced keeps its place in line", lineReplaced},
	{"the slot that was free first is given first", lineOldest},
	{"a freed slot waits behind nobody's who is not due", lineBehind},
}

// replacer is a task that replaces the waiting one of its key.
func replacer(key, limit string) task.Spec {
	s := keyed(key, limit)
	s.Unique.Until, s.Unique.Again = task.UntilStarted, task.Replace
	return s
}

func (w *world) later(s task.Spec) task.Spec {
	s.RunAt = w.now(w.s).Add(time.Hour)
	return s
}

func lineGoesOn(c *caller) {
	n, worker := 0, c.worker(c.s)
	alone := func(s ...task.Spec) []task.Enqueued { return c.enqueue(c.s, s...) }
	for what, gone := range map[string]struct {
		expires bool
		do      func(id task.ID, key, limit string)
	}{
		"canceled": {false, func(id task.ID, _, _ string) { c.acted(driver.OpCancel, id, driver.Done) }},
		"moved": {false, func(id task.ID, _, _ string) {
			c.act(driver.OpRequest{Operation: driver.OpMove, IDs: []task.ID{id}, Queue: "elsewhere", By: "me"})
		}},
		"put off": {false, func(id task.ID, key, _ string) {
			equal(c.world, "the answer", alone(c.later(replacer(key, "")))[0].Answer, task.Updated)
		}},
		"put off under another limit": {false, func(id task.ID, key, _ string) {
			equal(c.world, "the answer", alone(c.later(replacer(key, "other"+key)))[0].Answer, task.Updated)
		}},
		"put off by a transaction": {false, func(id task.ID, key, limit string) {
			equal(c.world, "the answer", c.committed(c.later(replacer(key, limit)))[0].Answer, task.Updated)
		}},
		"put off by a transaction, without a limit": {false, func(id task.ID, key, _ string) {
			equal(c.world, "the answer", c.committed(c.later(replacer(key, "")))[0].Answer, task.Updated)
		}},
		"expired": {true, func(task.ID, string, string) {}},
		"expired, its key taken": {true, func(_ task.ID, key, _ string) {
			equal(c.world, "the answer", alone(c.later(replacer(key, "")))[0].Answer, task.New)
		}},
		"expired, its key taken under another limit": {true, func(_ task.ID, key, _ string) {
			equal(c.world, "the answer", alone(c.later(replacer(key, "other"+key)))[0].Answer, task.New)
		}},
		"expired, its key taken by a transaction": {true, func(_ task.ID, key, limit string) {
			equal(c.world, "the answer", c.committed(c.later(replacer(key, limit)))[0].Answer, task.New)
		}},
		"expired, its key taken by a transaction, without a limit": {true, func(_ task.ID, key, _ string) {
			equal(c.world, "the answer", c.committed(c.later(replacer(key, "")))[0].Answer, task.New)
		}},
	} {
		for how, begun := range map[string]func(...task.Spec) []task.Enqueued{"a transaction's": c.committed, "nobody's": alone} {
			for _, maintained := range []bool{true, false} {
				n++
				key, limit := fmt.Sprint("u", n), fmt.Sprint("l", n)
				first := replacer(key, limit)
				if gone.expires {
					first.ExpiresAt = c.now(c.s).Add(50 * time.Millisecond)
				}
				got := begun(first, keyed("", limit))
				if gone.expires {
					c.until(first.ExpiresAt)
				}
				gone.do(got[0].ID, key, limit)
				if maintained {
					c.maintain()
				}
				c.finishes(worker, c.fetches(fmt.Sprintf("%s line, maintained: %v, the first of which is %s", how, maintained, what), worker, 10, got[1].ID)...)
			}
		}
	}
}

func lineDuplicate(c *caller) {
	worker := c.worker(c.s)
	for _, known := range []bool{false, true} { // the limit, before the transaction
		key, limit := fmt.Sprint("u", known), fmt.Sprint("l", known)
		if known {
			c.finishes(worker, c.fetch1(worker, c.add1(keyed("", limit))))
		}
		id := c.add1(c.later(keyed(key, "")))
		got := c.committed(keyed(key, limit), keyed("", limit))
		equal(c.world, "the first answer", got[0], task.Enqueued{Answer: task.Duplicate, ID: id, State: task.Scheduled})
		equal(c.world, "the second answer", got[1].Answer, task.New)
		c.fetches(fmt.Sprint("the second, limit known: ", known), worker, 10, got[1].ID)
	}
}

func lineReplaced(c *caller) {
	worker := c.worker(c.s)
	id := c.committed(replacer("u", "l"))[0].ID
	equal(c.world, "the answer", c.committed(replacer("u", "l"))[0].Answer, task.Updated)
	equal(c.world, "repairs", c.maintain().Repaired, 0)
	c.fetch1(worker, id)
}

// lineOldest: many slots are freed by transactions, of which a fetch may look at some only.
func lineOldest(c *caller) {
	worker := c.worker(c.s)
	var specs []task.Spec
	for i := range 25 {
		specs = append(specs, keyed("", fmt.Sprint("l", i)))
	}
	running := c.fetches("the first of each line", worker, 100, c.add(specs...)...)
	next := c.add(specs...)
	for _, f := range running {
		x := c.open()
		x.finish(worker, driver.OK, f)
		x.commit()
	}
	var got []task.ID
	for range next {
		got = append(got, ids(c.fetch(worker, 100))...)
	}
	c.order("what was fetched, one after the other", got, next)
}

// lineBehind: many limits have something to be done about them, and nothing is to be had under them yet.
func lineBehind(c *caller) {
	worker := c.worker(c.s)
	at := c.now(c.s).Add(time.Hour)
	var many []task.Spec
	for i := range 300 {
		s := replacer(fmt.Sprint("u", i), fmt.Sprint("l", i))
		s.RunAt = at
		many = append(many, s)
	}
	for i := range 2 { // they are taken in, and replaced
		c.committed(many...)
		limit := fmt.Sprint("busy", i)
		two := c.add(keyed("", limit), keyed("", limit))
		f := c.fetch1(worker, two[0])
		x := c.open()
		x.finish(worker, driver.OK, f)
		x.commit()
		c.finishes(worker, c.fetches("in the slot that the transaction freed", worker, 10, two[1])...)
	}
}
