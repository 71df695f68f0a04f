package mysql

import (
	"bytes"
	"slices"

	"github.com/dibs-run/dibs/store/internal/lifecycle"
	"github.com/dibs-run/dibs/task"
)

// columnNames are the columns of dibs_tasks that task.columns gives, in its order.
var columnNames = []string{"subqueue", "queue", "kind", "state", "class", "ordinal", "priority", "run_at", "due_at",
	"enqueued", "expires", "lapses", "started", "ended", "done", "attempts", "granted", "crashes", "snoozes",
	"begun", "displaced", "token", "worker", "holder", "completed", "ukey", "win", "limited", "line", "reason", "stop"}

var tokenColumn, completedColumn, ukeyColumn = columnNumber("token"), columnNumber("completed"), columnNumber("ukey")

func columnNumber(name string) int { return slices.Index(columnNames, name) }

// A change is a set of tasks that differ from their rows in the same columns: one statement writes them all.
type change struct {
	columns uint64 // as a set
	ids     list
	values  [][]any // of each task, all columns
}

// writeTasks appends the changes of tasks, as few statements as there are kinds of change.
func (b *txn) writeTasks(p *packet, tasks []*taskRow) {
	var gone list
	var changes []*change
	for _, t := range tasks {
		if t.gone {
			gone = append(gone, int64(t.ID))
		} else {
			changes = addChange(changes, t, b.tx != nil)
		}
	}
	if len(gone) > 0 {
		p.add("delete-tasks", gone).add("delete-attempts", gone)
	}
	for _, c := range changes {
		c.add(p)
	}
	for _, t := range tasks {
		if t.gone {
			continue
		}
		if t.takesKey() {
			p.add("take-key", t.Key, int64(t.ID)).add("if-one")
		}
		if t.respelt {
			p.fit(weight(&t.Spec))
			p.add("update-spec", options(&t.Spec), []byte(t.Args), int64(t.ID))
		}
	}
	for _, to := range []task.State{task.Blocked, task.Available} {
		var ids list
		for id, w := range b.flips {
			if w.to == to {
				ids = append(ids, int64(id))
			}
		}
		if len(ids) > 0 {
			p.add("flip-tasks", lifecycle.Number(to), ids)
		}
	}
}

// addChange puts t with tasks that can be written with it. A caller's connection may prepare statements, and a CASE
// of parameters loses their types then: there each task is alone.
func addChange(all []*change, t *taskRow, alone bool) []*change {
	columns, differs := t.difference()
	for _, c := range all {
		if c.columns == differs && !alone {
			c.ids, c.values = append(c.ids, int64(t.ID)), append(c.values, columns)
			return all
		}
	}
	return append(all, &change{differs, list{int64(t.ID)}, [][]any{columns}})
}

// difference returns the columns that t's row is to have, and the set of those that differ.
func (t *taskRow) difference() (columns []any, differs uint64) {
	columns = t.columns()
	if t.takesKey() {
		columns[ukeyColumn] = nil // take-key, once the rest is done
	}
	for i, was := range t.row.columns() {
		if !same(columns[i], was) {
			differs |= 1 << i
		}
	}
	return columns, differs
}

func same(x, y any) bool {
	a, ok := x.([]byte)
	b, too := y.([]byte)
	if ok && too {
		return bytes.Equal(a, b)
	}
	return !ok && !too && x == y
}

func (c *change) add(p *packet) {
	p.text.WriteString("UPDATE dibs_tasks FORCE INDEX (PRIMARY) SET ")
	for i, name := range columnNames {
		if c.columns&(1<<i) != 0 {
			p.text.WriteString(name + " = ")
			c.addColumn(p, i)
			p.text.WriteString(", ")
		}
	}
	p.text.WriteString("ver = ver + 1 WHERE id IN (")
	p.argument(c.ids)
	p.text.WriteString(") AND @dibs_ok = 1; ")
}

// addColumn appends the values of a column: one for all, or one for each.
func (c *change) addColumn(p *packet, i int) {
	first := c.values[0][i]
	if !slices.ContainsFunc(c.values, func(row []any) bool { return !same(row[i], first) }) {
		p.argument(first)
		return
	}
	if i == completedColumn && c.columns&(1<<tokenColumn) == 0 && !slices.ContainsFunc(c.values, func(row []any) bool { return row[i] != row[tokenColumn] }) {
		p.text.WriteString("token") // short, where hundreds have succeeded
		return
	}
	p.text.WriteString("CASE id")
	for n, row := range c.values {
		p.text.WriteString(" WHEN ")
		p.argument(c.ids[n])
		p.text.WriteString(" THEN ")
		p.argument(row[i])
	}
	p.text.WriteString(" END")
}
