package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/task"
)

// A Bucket bounds how many tasks of a kind are fetched: to Most in any time of length Per (task.Rate.Window), and to a
// burst, since it fills with time.
type Bucket struct {
	Each  time.Duration // the time that one task costs
	Burst time.Duration // how far ahead of now Full may be
	Full  time.Time     // when it is full again
	Per   time.Duration
	Most  int
	Taken Taken
}

// BucketOf is the bucket of a rate, a full one; none where the rate bounds nothing.
func BucketOf(r task.Rate) (b Bucket, bounds bool) {
	if r.Count <= 0 || r.Per <= 0 {
		return b, false
	}
	b.Per, b.Most, b.Each = r.Window(), r.Count, max(r.Per/time.Duration(r.Count), time.Microsecond)
	b.Burst = b.Each * time.Duration(r.Bursts())
	return b, true
}

// Ready says whether there is one left.
func (b *Bucket) Ready(now time.Time) bool {
	return b.Full.Add(b.Each).Sub(now) <= b.Burst && b.Taken.since(now.Add(-b.Per)) < b.Most
}

// Take takes one.
func (b *Bucket) Take(now time.Time) {
	if b.Full.Before(now) {
		b.Full = now
	}
	b.Full = b.Full.Add(b.Each)
	b.Taken.add(now, b.Per)
}

// RateStatus says how fast it fills, and when the next task may be taken.
func (b *Bucket) RateStatus() driver.RateStatus {
	s := driver.RateStatus{Each: b.Each, Next: b.Full.Add(b.Each - b.Burst)}
	if at := b.Taken.below(b.Most).Add(b.Per); len(b.Taken) > 0 && at.After(s.Next) {
		s.Next = at
	}
	return s
}

// Taken are the tasks that were taken within the last Per, in order. They are counted in slices of Per, each with the
// instant of its last task: a slice counts until that one is old enough, so too few are given rather than too many.
type Taken []struct {
	At time.Time
	N  int
}

// parts is how many slices there are of a Per, so that a store keeps a bounded number of them.
const parts = 16

// since counts those after an instant.
func (t Taken) since(from time.Time) (n int) {
	for i := len(t) - 1; i >= 0 && t[i].At.After(from); i-- {
		n += t[i].N
	}
	return n
}

// below is the instant after which fewer than most were taken.
func (t Taken) below(most int) (at time.Time) {
	n := 0
	for i := len(t) - 1; i >= 0; i-- {
		if n += t[i].N; n >= most {
			return t[i].At
		}
	}
	return at
}

// add takes one more.
func (t *Taken) add(now time.Time, per time.Duration) {
	all := *t
	for len(all) > 0 && !all[0].At.After(now.Add(-per)) {
		all = all[1:]
	}
	if last := len(all) - 1; last >= 0 {
		if now.Before(all[last].At) { // the clock went back
			now = all[last].At
		}
		if slice := max(per/parts, time.Microsecond); now.UnixMicro()/slice.Microseconds() == all[last].At.UnixMicro()/slice.Microseconds() {
			all[last].At, all[last].N = now, all[last].N+1
			*t = all
			return
		}
	}
	*t = append(all, struct {
		At time.Time
		N  int
	}{now, 1})
}

// String is as a store keeps it, in µs: ParseTaken reads it.
func (t Taken) String() string {
	var b strings.Builder
	for _, x := range t {
		fmt.Fprintf(&b, "%d:%d ", x.At.UnixMicro(), x.N)
	}
	return strings.TrimSpace(b.String())
}

// ParseTaken is the reverse of String; what is none is left out.
func ParseTaken(s string) (t Taken) {
	for _, word := range strings.Fields(s) {
		var at int64
		var n int
		if _, err := fmt.Sscanf(word, "%d:%d", &at, &n); err == nil {
			t = append(t, struct {
				At time.Time
				N  int
			}{time.UnixMicro(at).UTC(), n})
		}
	}
	return t
}
