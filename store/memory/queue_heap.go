package memory

import "container/heap"

// A taskHeap keeps tasks so that the first one is at hand, and any can be taken out. A task knows its
// position in the taskHeap, from 1; 0 is nowhere.
type taskHeap struct {
	tasks  []*taskRow
	before func(x, y *taskRow) bool
	pos    func(*taskRow) *int
}

// position is where a task is in the heap of its state.
func position(t *taskRow) *int { return &t.at }

// push adds t.
func (p *taskHeap) push(t *taskRow) { heap.Push((*order)(p), t) }

// drop takes t out, if it is there.
func (p *taskHeap) drop(t *taskRow) {
	if i := *p.pos(t) - 1; i >= 0 && i < len(p.tasks) && p.tasks[i] == t {
		heap.Remove((*order)(p), i)
	}
}

// first is the first one, nil where there is none.
func (p *taskHeap) first() *taskRow {
	if len(p.tasks) == 0 {
		return nil
	}
	return p.tasks[0]
}

// order is a heap for container/heap.
type order taskHeap

func (o *order) Len() int           { return len(o.tasks) }
func (o *order) Less(i, j int) bool { return o.before(o.tasks[i], o.tasks[j]) }

func (o *order) Swap(i, j int) {
	o.tasks[i], o.tasks[j] = o.tasks[j], o.tasks[i]
	*o.pos(o.tasks[i]), *o.pos(o.tasks[j]) = i+1, j+1
}

func (o *order) Push(x any) {
	t := x.(*taskRow)
	o.tasks = append(o.tasks, t)
	*o.pos(t) = len(o.tasks)
}

func (o *order) Pop() any {
	last := len(o.tasks) - 1
	t := o.tasks[last]
	o.tasks[last], o.tasks = nil, o.tasks[:last]
	*o.pos(t) = 0
	return t
}
