package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/dibs-run/dibs/internal/test/verdicts"
	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/tick"
)

var tablePromises = []promise{
	{"every case of the table ends as tick's rules say", everyCase},
	{"every settling of the table ends as tick's rules say", everySettling},
}

// A stage brings a store into the facts of cases: it knows which leases, runs and instants stand for those of the
// table.
type stage struct {
	*world
	base  time.Time // what Now stands for
	holds map[lease.Ref]lease.Ref
}

func newStage(w *world) *stage {
	s := &stage{world: w, base: w.now(w.s).Truncate(time.Microsecond), holds: map[lease.Ref]lease.Ref{{}: {}}}
	for _, r := range verdicts.Holds {
		s.holds[r] = w.server(w.s)
	}
	return s
}

// scene is one case, of a job of its own.
type scene struct {
	*stage
	verdicts.Case
	job    string
	runs   map[string]string
	paused time.Time // what stands for the beginning of the pause
}

// everyCase brings the store into the facts of each case, asks, and looks at the answer and the rows. Leases lapse
// once all rows are there that were written under them.
func everyCase(w *world) {
	s := newStage(w)
	var scenes []*scene
	for i, c := range verdicts.Cases() {
		x := &scene{stage: s, Case: c, job: fmt.Sprint("j", i), runs: map[string]string{"": ""}}
		x.prepare()
		scenes = append(scenes, x)
	}
	for from, ref := range s.holds {
		if from != (lease.Ref{}) && !verdicts.Live(from) {
			w.lapse(w.s, ref)
		}
	}
	for _, x := range scenes {
		x.overtake()
		x.play()
	}
}

// at is what stands for an instant of the case.
func (x *scene) at(t time.Time) time.Time {
	switch {
	case t.IsZero():
		return t
	case t.Equal(x.Facts.Job.Pause.Since):
		return x.paused
	}
	return x.base.Add(t.Sub(verdicts.Now))
}

// id is what stands for a run's.
func (x *scene) id(of string) string {
	if _, there := x.runs[of]; !there {
		x.runs[of] = run.NewID()
	}
	return x.runs[of]
}

// current is a run as it stands; the zero Record where the case is about none.
func (x *scene) current(of string) run.Record {
	if of == "" {
		return run.Record{}
	}
	return x.world.run(x.id(of))
}

// record is what stands for a run.
func (x *scene) record(r run.Record) run.Record {
	hold := x.holds[x.owner(r)]
	r.ID, r.Job, r.Tick, r.Owner = x.id(r.ID), x.job, x.at(r.Tick), hold.Owner
	if off := r.Token - x.owner(r).Token; hold.Owner != (lease.Nonce{}) {
		r.Token = hold.Token + off
	}
	return r
}

// owner is the hold of the table that has a run.
func (x *scene) owner(r run.Record) lease.Ref {
	for _, ref := range verdicts.Holds {
		if r.Owner == ref.Owner || r.Owner == x.holds[ref].Owner {
			return ref
		}
	}
	return lease.Ref{}
}

// prepare makes the rows while all leases live.
func (x *scene) prepare() {
	job, t := x.Facts.Job, x.Facts.Tick
	if t.State == "" || t.Lease == (lease.Ref{}) {
		x.register(job)
	}
	switch ref := x.first(); {
	case t.State == "":
		x.alone()
	case t.Lease == lease.Ref{}:
		x.settleIt()
	case t.State == tick.Closed && t.RunID == "":
		a := x.claim(x.s, tick.ClaimRequest{Job: x.job, At: x.at(t.At), Lease: ref, Outcome: t.Outcome})
		equal(x.world, x.Name+": the claim before it", a.Status, tick.Won)
	default:
		x.won(x.s, x.job, x.at(t.At), ref)
		x.ran(ref)
	}
	if t.State != "" && t.Lease != (lease.Ref{}) { // claims came before the mark
		x.register(job)
	}
}

// first is who had the tick first: its run, if it was taken over since.
func (x *scene) first() lease.Ref {
	if x.takenOver() {
		return x.holds[x.owner(x.Facts.Run)]
	}
	return x.holds[x.Facts.Tick.Lease]
}

func (x *scene) takenOver() bool { return x.Facts.Tick.State == tick.Claimed && x.Facts.Run.ID != "" }

// ran starts and ends the run of the tick, as far as it goes.
func (x *scene) ran(ref lease.Ref) {
	t := x.Facts.Tick
	if t.State == tick.Claimed && !x.takenOver() {
		return
	}
	id := t.RunID
	if id == "" {
		id = x.Facts.Run.ID
	}
	r := run.Record{ID: x.id(id), Job: x.job, Tick: x.at(t.At)}
	equal(x.world, x.Name+": the start before it", x.start(x.s, tick.StartRequest{Run: r, Claim: ref, Lease: ref}).Status, tick.Won)
	if t.State == tick.Closed {
		r.Owner, r.Token, r.Outcome, r.Inferred = ref.Owner, ref.Token, t.Outcome, t.Inferred
		equal(x.world, x.Name+": the end before it", x.close(x.s, tick.CloseRequest{Run: r, Claim: ref}).Status, tick.Won)
	}
}

// alone makes a run without a tick.
func (x *scene) alone() {
	r := x.record(x.Facts.Run)
	if r.ID == "" || !r.Tick.IsZero() {
		return
	}
	ref := x.holds[x.owner(r)]
	equal(x.world, x.Name+": the start before it", x.start(x.s, tick.StartRequest{Run: r, Lease: ref}).Status, tick.Won)
	if r.Outcome != "" {
		equal(x.world, x.Name+": the end before it", x.close(x.s, tick.CloseRequest{Run: r}).Status, tick.Won)
	}
}

// register makes the job.
func (x *scene) register(job tick.Job) {
	t := x.Facts.Tick
	lone := t.State != "" && t.Lease == lease.Ref{} // settling needs a job, and makes its mark
	if job.Generation == 0 && !lone {
		return
	}
	since := x.at(job.Mark).Add(time.Microsecond)
	if lone {
		since = x.at(t.At)
	}
	for n := range max(1, job.Generation) {
		x.setJob(x.s, x.job, fmt.Sprintf(`{"n":%d}`, n), since)
	}
	if !job.Removed.IsZero() {
		x.setJob(x.s, x.job, "", x.at(job.Removed))
	}
	if job.Pause.Since.IsZero() {
		return
	}
	j, err := x.s.Ticks.Pause(x.ctx, tick.PauseRequest{Job: x.job})
	x.check("Pause", err)
	x.paused = j.Pause.Since
	if job.Pause.Resumed {
		x.until(x.paused)
		_, err := x.s.Ticks.Pause(x.ctx, tick.PauseRequest{Job: x.job, Resume: true})
		x.check("Pause", err)
	}
}

// settleIt makes a row that nobody claimed.
func (x *scene) settleIt() {
	t := x.Facts.Tick
	to := x.at(t.Last())
	if m := x.Facts.Job.Mark; !m.IsZero() {
		to = x.at(m)
	}
	t.Job, t.At, t.Through = x.job, x.at(t.At), x.at(t.Through)
	equal(x.world, x.Name+": the settling before it", x.settle(tick.SettleRequest{Job: x.job, From: x.at(x.Facts.Tick.At).Add(-time.Microsecond), To: to,
		Rows: []tick.Tick{t}}), tick.Won)
}

// overtake takes a tick over whose run is dead.
func (x *scene) overtake() {
	if !x.takenOver() {
		return
	}
	t := x.Facts.Tick
	a := x.take(x.s, tick.TakeRequest{Job: x.job, At: x.at(t.At), From: x.first(), Lease: x.holds[t.Lease], Rerun: true})
	equal(x.world, x.Name+": the takeover before it", a.Status, tick.Won)
}

// play asks, and compares what then stands with what tick's rules say.
func (x *scene) play() {
	at, id := x.Facts.Tick.At, x.Facts.Run.ID
	if x.Claim != nil {
		at = x.Claim.At
	}
	if x.Start != nil {
		at, id = x.Start.Run.Tick, x.Start.Run.ID
	}
	if at.IsZero() && x.Start == nil {
		at = verdicts.At
	}
	row, known := x.row(x.job, x.at(at)), x.current(id)
	a := x.request()
	equal(x.world, x.Name, a.Status, x.Want)

	v, now := x.Verdict(), x.row(x.job, x.at(at))
	if !at.IsZero() {
		equal(x.world, x.Name+": the row that it is answered", a.Tick, now)
	}
	if v.Tick != nil {
		row = now // but for what the verdict says
		row.State, row.Lease, row.RunID, row.Outcome = v.Tick.State, x.holds[v.Tick.Lease], x.id(v.Tick.RunID), v.Tick.Outcome
		row.Reason, row.Inferred, row.Reruns, row.Live = v.Tick.Reason, v.Tick.Inferred, v.Tick.Reruns, verdicts.Live(v.Tick.Lease)
	}
	equal(x.world, x.Name+": the row", now, row)
	ended := x.current(id)
	if v.Run != nil {
		said := x.record(*v.Run)
		known = ended
		known.ID, known.Job, known.Tick, known.Owner, known.Token = said.ID, said.Job, said.Tick, said.Owner, said.Token
		known.Outcome, known.Reason, known.Inferred = said.Outcome, said.Reason, said.Inferred
	}
	if !reflect.DeepEqual(ended, known) {
		x.Errorf("%s: the run: got %+v, want %+v", x.Name, ended, known)
	}
}

// request asks what the case asks.
func (x *scene) request() tick.Answer {
	switch {
	case x.Claim != nil:
		r := *x.Claim
		r.Job, r.At, r.Lease, r.NotAfter = x.job, x.at(r.At), x.holds[r.Lease], x.at(r.NotAfter)
		return x.claim(x.s, r)
	case x.Take != nil:
		r := *x.Take
		r.Job, r.At, r.From, r.Lease, r.NotAfter = x.job, x.at(r.At), x.holds[r.From], x.holds[r.Lease], x.at(r.NotAfter)
		return x.take(x.s, r)
	case x.Start != nil:
		r := *x.Start
		r.Run, r.Claim, r.Lease, r.NotAfter = x.record(r.Run), x.holds[r.Claim], x.holds[r.Lease], x.at(r.NotAfter)
		return x.start(x.s, r)
	}
	r := *x.Close
	r.Run, r.Claim = x.record(r.Run), x.holds[r.Claim]
	return x.close(x.s, r)
}

// everySettling brings the store before each settling of the table.
func everySettling(w *world) {
	s := newStage(w)
	for i, c := range verdicts.Settlings() {
		x := &scene{stage: s, job: fmt.Sprint("j", i)}
		if c.Job.Generation != 0 {
			w.setJob(w.s, x.job, "{}", x.at(c.Job.Mark).Add(time.Microsecond))
		}
		for _, t := range c.Above {
			a := w.claim(w.s, tick.ClaimRequest{Job: x.job, At: x.at(t.At), Lease: s.holds[t.Lease], Outcome: t.Outcome})
			equal(w, c.Name+": the claim before it", a.Status, tick.Won)
		}
		had := w.rows(historyOf(x.job))
		req := c.Ask
		req.Job, req.From, req.To, req.Rows = x.job, x.at(req.From), x.at(req.To), nil
		for _, t := range c.Ask.Rows {
			t.Job, t.At, t.Through = x.job, x.at(t.At), x.at(t.Through)
			req.Rows = append(req.Rows, t)
		}
		equal(w, c.Name, w.settle(req), c.Want)
		if c.Job.Generation != 0 {
			sameTime(w, c.Name+": the mark", w.job(x.job).Mark, x.at(c.Mark))
		}
		var got, want []string
		told := func(t tick.Tick) string { return fmt.Sprint(t.At, t.Through, t.State, t.Outcome) }
		for _, t := range w.rows(historyOf(x.job)) {
			got = append(got, told(t))
		}
		for _, t := range had {
			want = append(want, told(t))
		}
		for _, n := range c.Inserted {
			want = append(want, told(req.Rows[n]))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			w.Errorf("%s: rows: got %v, want %v", c.Name, got, want)
		}
	}
}
