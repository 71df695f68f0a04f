package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dibs-run/dibs/task"
)

// An item is one spec of a batch, in the form of a row.
type item struct {
	i          int // its position in the batch
	spec       *task.Spec
	options    string
	uniq, lim  pgtype.UUID
	hold       int64
	again      int16
	longest    int64
	contention int16
}

// item makes one.
func (t tasks) item(i int, s *task.Spec) item {
	m := item{i: i, spec: s, options: options(s)}
	if u := s.Unique; u != nil {
		m.uniq, m.hold = t.hashed(u.Hash(s.Kind)), u.Window.Microseconds()
		if u.Until == task.UntilStarted {
			m.hold = -1
		}
		switch u.Again {
		case task.Replace:
			m.again = 1
		case task.Debounce:
			m.again, m.longest = 2, u.Longest(s.Delay).Microseconds()
		}
	}
	if l := s.Limit; l != nil {
		m.lim = t.hashed(l.Hash(s.Kind))
		switch l.OnContention {
		case task.Discard:
			m.contention = 1
		case task.Displace:
			m.contention = 2
		}
	}
	return m
}

// options is the part of a spec that the store only keeps, with its instant in µs and UTC as all others.
func options(s *task.Spec) string {
	if s.RetryUntil.IsZero() {
		return string(s.MarshalOptions())
	}
	kept := *s
	kept.RetryUntil = s.RetryUntil.UTC().Truncate(time.Microsecond)
	return string(kept.MarshalOptions())
}

// An admission takes a batch in: at once if no item has a unique key or a limit, else in rounds in which no key
// occurs twice.
type admission struct {
	t       tasks
	own     bool // in a transaction of the caller's
	plain   bool // none has a unique key or a limit
	keyed   bool // all have a unique key, and none a limit
	rounds  [][]item
	same    map[int]int // items that share their key with an earlier one, and are answered as that was
	answers []task.Enqueued
	fresh   []name
	bands   []band  // that the database may not know
	told    []int64 // queues in which there may be something to fetch
	last    string  // the name of the last one
}

// admission sorts a batch into rounds, and finds names and bands that the database may not have.
func (t tasks) admission(specs []task.Spec, own bool) *admission {
	a := &admission{t: t, own: own, plain: true, keyed: true, rounds: [][]item{make([]item, 0, len(specs))},
		same: map[int]int{}, answers: make([]task.Enqueued, len(specs))}
	seen, bands := map[name]bool{}, map[band]bool{}
	last, round := map[pgtype.UUID]int{}, map[pgtype.UUID]int{}
	for i := range specs {
		s := &specs[i]
		if i == 0 || s.Queue != specs[i-1].Queue || s.Kind != specs[i-1].Kind {
			seen[name{false, s.Queue}], seen[name{true, s.Kind}] = true, true
		}
		if i == 0 || s.Queue != specs[i-1].Queue || s.Kind != specs[i-1].Kind || s.Priority != specs[i-1].Priority {
			bands[band{t.names.queue(s.Queue), t.names.kind(s.Kind), rank(s.Priority)}] = true
		}
		m := t.item(i, s)
		a.plain = a.plain && s.Unique == nil && s.Limit == nil
		a.keyed = a.keyed && s.Unique != nil && s.Limit == nil
		before, twice := last[m.uniq]
		switch {
		case s.Unique == nil:
			a.put(0, m)
			continue
		case twice && m.again == 0:
			a.same[i] = before
			continue
		case twice:
			round[m.uniq]++
		}
		last[m.uniq] = i
		a.put(round[m.uniq], m)
	}
	if own {
		a.fresh, a.bands = slices.Collect(maps.Keys(seen)), slices.Collect(maps.Keys(bands))
	} else {
		a.fresh, a.bands = t.names.unstored(seen), t.names.newBands(bands)
	}
	return a
}

func (a *admission) put(round int, m item) {
	for len(a.rounds) <= round {
		a.rounds = append(a.rounds, nil)
	}
	a.rounds[round] = append(a.rounds[round], m)
}

// Enqueue takes a batch in, and tells idle workers after the commit.
func (t tasks) Enqueue(ctx context.Context, specs []task.Spec) ([]task.Enqueued, error) {
	if len(specs) == 0 {
		return nil, ctx.Err()
	}
	a := t.admission(specs, false)
	if err := a.run(ctx); err != nil {
		return nil, err
	}
	t.names.known(a.fresh)
	t.names.knownBands(a.bands)
	answers, err := a.answer()
	t.watch.tell(a.told)
	return answers, err
}

// run takes the batch in. If all items have unique keys and no limits, the keys are first assumed to be free, which
// is cheap and mostly so.
func (a *admission) run(ctx context.Context) error {
	if a.keyed && len(a.rounds) == 1 {
		err := a.t.db.run(ctx, "enqueue", append(a.named(), a.unheld())...)
		if err != nil && !refused(err, "23505", "55P03", "40P01") {
			return err
		}
		if err != nil {
			clear(a.answers) // nothing was done
		}
		a.rounds[0] = slices.DeleteFunc(a.rounds[0], func(m item) bool { return a.answers[m.i].Answer != "" })
		if len(a.rounds[0]) == 0 {
			return nil
		}
	}
	for n := 0; ; n++ {
		err := a.t.db.run(ctx, "enqueue", append(a.named(), a.steps()...)...)
		if n == begins || !refused(err, "DIBS1") {
			return err
		}
	}
}

// begins is how often an enqueue begins anew because keys changed hands while it locked limits.
const begins = 100

// refused says whether the server refused with one of some codes.
func refused(err error, codes ...string) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}

// named are the steps that add new names and bands.
func (a *admission) named() (steps []step) {
	if len(a.fresh) > 0 {
		steps = append(steps, a.t.names.store(a.fresh))
	}
	if len(a.bands) > 0 {
		steps = append(steps, storeBands(a.bands))
	}
	return steps
}

// unheld takes in the items whose key is free.
func (a *admission) unheld() step {
	items, places := byKey(a.rounds[0])
	keys, patience := column(items, func(m item) pgtype.UUID { return m.uniq }), strconv.FormatInt(lockWait.Milliseconds(), 10)
	var s step
	if first := items[0]; allAlike(items) {
		columns := a.alike(items)
		columns[3] = column(items, func(m item) string { return m.options }) // it tells of the key
		s = do(sqlEnqueue()[7], append(columns, keys, first.hold, patience, places)...)
	} else {
		s = do(sqlEnqueue()[6], append(a.common(items), keys, column(items, func(m item) int64 { return m.hold }), patience, places)...)
	}
	return s.each(func(rows pgx.Rows) error {
		var id int64
		var state int
		var key pgtype.UUID
		if err := rows.Scan(&id, &state, &key); err != nil {
			return err
		}
		// They come in the order in which they were given.
		for len(items) > 0 && items[0].uniq != key {
			items = items[1:]
		}
		if len(items) == 0 {
			return errors.New("the server answers in the wrong order")
		}
		a.take(items[0], task.Enqueued{Answer: task.New, ID: task.ID(id), State: states[state]})
		return nil
	})
}

// byKey sorts items by their keys, and returns with them the places that they had, from 1.
func byKey(items []item) (sorted []item, places []int32) {
	places = make([]int32, len(items))
	for n := range places {
		places[n] = int32(n) + 1
	}
	slices.SortFunc(places, func(x, y int32) int { return bytes.Compare(items[x-1].uniq.Bytes[:], items[y-1].uniq.Bytes[:]) })
	return column(places, func(n int32) item { return items[n-1] }), places
}

// simple takes in a batch without keys and limits.
func (a *admission) simple() step {
	items, next := a.rounds[0], 0
	if !a.own && allAlike(items) { // database/sql knows no arrays
		return do(sqlEnqueue()[5], a.alike(items)...).each(func(rows pgx.Rows) error { return a.takeAlike(rows, items) })
	}
	return do(sqlEnqueue()[1], a.common(items)...).each(func(rows pgx.Rows) error {
		var id int64
		var state int
		if err := rows.Scan(&id, &state); err != nil {
			return err
		}
		a.take(items[next], task.Enqueued{Answer: task.New, ID: task.ID(id), State: states[state]})
		next++
		return nil
	})
}

// takeAlike takes in the one row that answers a batch of alike items.
func (a *admission) takeAlike(rows pgx.Rows, items []item) error {
	var ids []int64
	var state int
	if err := rows.Scan(&ids, &state); err != nil {
		return err
	}
	if len(ids) != len(items) {
		return fmt.Errorf("the server enqueued %[2]d of %[1]d tasks", len(items), len(ids))
	}
	slices.Sort(ids) // they were drawn in the order of the items
	for i, m := range items {
		a.take(m, task.Enqueued{Answer: task.New, ID: task.ID(ids[i]), State: states[state]})
	}
	return nil
}

// allAlike says that items differ in their arguments and keys only, as most batches do.
func allAlike(items []item) bool {
	first := items[0]
	y := first.spec
	return !slices.ContainsFunc(items, func(m item) bool {
		x := m.spec
		return x.Queue != y.Queue || x.Kind != y.Kind || x.Priority != y.Priority || !m.uniq.Valid && m.options != first.options || x.Delay != y.Delay ||
			!x.RunAt.Equal(y.RunAt) || !x.ExpiresAt.Equal(y.ExpiresAt) || m.hold != first.hold
	})
}

// alike are the columns of alike items: as common, with arrays only for what differs.
func (a *admission) alike(items []item) []any {
	s := items[0].spec
	return []any{a.t.names.queue(s.Queue), a.t.names.kind(s.Kind), int64(rank(s.Priority)), items[0].options,
		column(items, func(m item) string { return string(m.spec.Args) }),
		micros(s.RunAt), s.Delay.Microseconds(), micros(s.ExpiresAt)}
}

// steps are those that take the batch in.
func (a *admission) steps() (steps []step) {
	if a.plain {
		return []step{a.simple()}
	}
	if !a.own {
		steps = append(steps, a.declare()...)
	}
	for _, items := range a.rounds {
		steps = append(steps, do(sqlEnqueue()[2], a.special(items)...).each(func(rows pgx.Rows) error {
			var n, answer, state int
			var id int64
			if err := rows.Scan(&n, &answer, &id, &state); err != nil {
				return err
			}
			e := task.Enqueued{Answer: admissions[answer], ID: task.ID(id), State: states[state]}
			if e.Answer == task.Undecided {
				e.State = ""
			}
			a.take(items[n-1], e)
			return nil
		}))
	}
	return steps
}

// declare locks all limits of the batch, before anything else is locked.
func (a *admission) declare() []step {
	var limited []item
	var displaced []pgtype.UUID
	for _, items := range a.rounds {
		for _, m := range items {
			if m.lim.Valid {
				limited = append(limited, m)
			}
			if m.again > 0 {
				displaced = append(displaced, m.uniq)
			}
		}
	}
	if len(limited)+len(displaced) == 0 {
		return nil
	}
	return []step{do(sqlEnqueue()[4], a.t.ns,
		column(limited, func(m item) pgtype.UUID { return m.lim }), column(limited, limitKey), column(limited, limitSlots), displaced)}
}

func limitKey(m item) string {
	if m.spec.Limit == nil {
		return ""
	}
	return m.spec.Limit.Key
}

func limitSlots(m item) int32 {
	if m.spec.Limit == nil {
		return 0
	}
	return int32(m.spec.Limit.Slots())
}

var admissions = map[int]task.Admission{1: task.New, 2: task.Duplicate, 3: task.Updated, 4: task.Undecided}

// take notes the answer to one item, and the queue to tell of.
func (a *admission) take(m item, e task.Enqueued) {
	a.answers[m.i] = e
	if e.State == task.Available && e.Answer != task.Duplicate && (len(a.told) == 0 || a.last != m.spec.Queue) {
		a.told, a.last = append(a.told, a.t.names.queue(m.spec.Queue)), m.spec.Queue
	}
}

// answer is the answer to the batch. An item that came after one of the same key is its duplicate.
func (a *admission) answer() ([]task.Enqueued, error) {
	for i, before := range a.same {
		a.answers[i] = a.answers[before]
		if a.answers[i].Answer != task.Undecided {
			a.answers[i].Answer = task.Duplicate
		}
	}
	for i, e := range a.answers {
		if e.Answer == "" {
			return nil, fmt.Errorf("postgres store %s: enqueue: no answer for item %d: %w", a.t.db.address, i, errRecord)
		}
	}
	return a.answers, nil
}

// common are the columns of every item.
func (a *admission) common(items []item) []any {
	t := a.t
	return []any{
		column(items, func(m item) int64 { return t.names.queue(m.spec.Queue) }),
		column(items, func(m item) int64 { return t.names.kind(m.spec.Kind) }),
		column(items, func(m item) int32 { return rank(m.spec.Priority) }),
		column(items, func(m item) string { return string(m.spec.Args) }),
		column(items, func(m item) string { return m.options }),
		column(items, func(m item) int64 { return micros(m.spec.RunAt) }),
		column(items, func(m item) int64 { return m.spec.Delay.Microseconds() }),
		column(items, func(m item) int64 { return micros(m.spec.ExpiresAt) }),
	}
}

// special are the columns of queue_admit.
func (a *admission) special(items []item) []any {
	columns := append(a.common(items),
		column(items, func(m item) pgtype.UUID { return m.uniq }),
		column(items, func(m item) int64 { return m.hold }),
		column(items, func(m item) int16 { return m.again }),
		column(items, func(m item) int64 { return m.longest }))
	if slices.ContainsFunc(items, func(m item) bool { return m.lim.Valid }) {
		columns = append(columns,
			column(items, func(m item) pgtype.UUID { return m.lim }),
			column(items, limitSlots),
			column(items, func(m item) int16 { return m.contention }))
	} else {
		columns = append(columns, []pgtype.UUID(nil), []int32(nil), []int16(nil))
	}
	return args(a.t.ns, a.own, lockWait.Milliseconds())(columns...)
}
