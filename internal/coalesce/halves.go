package coalesce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// InHalves changes what happens to a batch that is answered with an error. A store may choke on a single item, so the
// batch is sent again in halves until within is over. The other items come through, and each has its answer as soon
// as its part has. Two batches are not sent again: one that got no answer at all, and the rest of one of which too
// many parts fail and none goes well. boot tells the time since boot. Set it before use.
func (b *Batcher[Q, A]) InHalves(within time.Duration, boot func() time.Duration) *Batcher[Q, A] {
	b.halving, b.boot = within, boot
	return b
}

// mostFailures is after how many failures alone the parts are not at fault.
const mostFailures = 64

// Shared is the error of N items together: which of them it is about is not known.
type Shared struct {
	Err error
	N   int
}

func (s *Shared) Error() string { return fmt.Sprintf("%v (it was asked for %d at once)", s.Err, s.N) }

// Unwrap is for errors.Is and errors.As.
func (s *Shared) Unwrap() error { return s.Err }

func (b *Batcher[Q, A]) sendInHalves(batch []*call[Q, A]) {
	type part struct {
		calls []*call[Q, A]
		err   error // of the larger one that it was in
	}
	begun := b.boot()
	inTime := func() bool { return b.boot()-begun < b.halving }
	good, failed := 0, 0
	for parts := []part{{batch, nil}}; len(parts) > 0; parts = parts[1:] { // the larger ones first
		p := parts[0]
		switch {
		case good == 0 && failed == mostFailures:
			answer(p.calls, nil, errors.Unwrap(p.err))
			continue
		case p.err != nil && !inTime():
			answer(p.calls, nil, p.err)
			continue
		}
		as, err := b.carryOut(p.calls)
		if err == nil {
			good++
		} else {
			failed++
		}
		if n := len(p.calls); n > 1 && err != nil {
			shared := &Shared{err, n}
			if !Silent(err) && inTime() {
				parts = append(parts, part{p.calls[:n/2], shared}, part{p.calls[n/2:], shared})
				continue
			}
			err = shared
		}
		answer(p.calls, as, err)
	}
}

// Silent says whether an error means that no answer came: not in time, or not at all for want of a connection. What a
// server says of a request, for instance that it was locked out for too long, is an answer.
func Silent(err error) bool {
	var n net.Error
	return Late(err) || errors.As(err, &n) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed)
}

// Late says whether an error means that no answer came in time.
func Late(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}
