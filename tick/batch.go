package tick

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dibs-run/dibs/internal/coalesce"
	"github.com/dibs-run/dibs/lease"
)

const (
	// mostItems is how many claims, starts or closes a Book sends in one request at most, as many as leases do (rule
	// L4). It sends fewer after the store did not answer that many in time. Each of the three has one request in
	// progress at a time: items that come meanwhile are sent together.
	mostItems = 500
	// fewItems is how many items are sent together after the store did not answer them in a larger batch.
	fewItems = 16
)

// A line sends items together that are asked for at the same time. If the store does not answer in time, one of the
// items may be the reason, for example because another client has locked its row. So the items are sent again in
// small groups, and alone if need be, while new items continue to be sent: all but that one item are answered.
type line[Q any] struct {
	keeper *lease.Keeper
	what   string
	send   func([]Q) ([]Answer, error)
	// persist: the line itself retries once for an item that got no answer when sent alone or without a connection.
	// Otherwise the caller does.
	persist bool
	lanes   [3]*coalesce.Batcher[asked[Q], Answer] // for many, few and one
}

// asked is one item.
type asked[Q any] struct {
	q     Q
	until time.Duration // the boot instant until which it is sent, of one that went unheard
	why   error         // how it went unheard; nil: it is new
}

func (l *line[Q]) open(key func(Q) string) *line[Q] {
	width := coalesce.NewWidth(mostItems, l.within())
	of := func(a asked[Q]) string { return key(a.q) }
	l.lanes[0] = coalesce.New(width.Now(), 1, of, func(all []asked[Q]) ([]Answer, error) {
		sent := l.keeper.Boot()
		as, err := l.request(all)
		l.lanes[0].Limit(width.Learn(len(all), l.keeper.Boot()-sent, !coalesce.Silent(err)))
		return as, err
	}).InHalves(l.within(), l.keeper.Boot)
	for i, c := range []struct{ most, flights int }{{fewItems, 2}, {1, 4}} {
		l.lanes[1+i] = coalesce.New(c.most, c.flights, of, func(all []asked[Q]) ([]Answer, error) {
			if now := l.keeper.Boot(); !slices.ContainsFunc(all, func(a asked[Q]) bool { return now <= a.until }) {
				return nil, all[0].why // the store answers nobody
			}
			return l.request(all)
		}).InHalves(l.within(), l.keeper.Boot)
	}
	return l
}

func (l *line[Q]) within() time.Duration { return l.keeper.Margin().RPCTimeout }

// request sends one batch, and sends it once more if that may help.
func (l *line[Q]) request(all []asked[Q]) ([]Answer, error) {
	qs := make([]Q, len(all))
	for i, a := range all {
		qs[i] = a.q
	}
	sent := l.keeper.Boot()
	as, err := l.send(qs)
	if err != nil && l.keeper.Boot()-sent >= l.within() {
		return nil, fmt.Errorf("%w: %w", err, context.DeadlineExceeded) // whatever it says of itself
	}
	if l.persist && errors.Is(err, lease.ErrUnavailable) && !coalesce.Late(err) && (len(qs) == 1 || coalesce.Silent(err)) {
		return l.send(qs)
	}
	return as, err
}

// submit sends an item together with others. It waits for the answer even if ctx ends: an abandoned request would
// leave its effect behind.
func (l *line[Q]) submit(ctx context.Context, q Q) (Answer, error) {
	ctx = context.WithoutCancel(ctx)
	a, err := l.lanes[0].Do(ctx, asked[Q]{q: q})
	until := l.keeper.Boot() + 2*l.within()
	apart := parted(err)
	if apart {
		a, err = l.lanes[1].Do(ctx, asked[Q]{q, until, err})
	}
	if parted(err) || !apart && l.persist && coalesce.Late(err) {
		a, err = l.lanes[2].Do(ctx, asked[Q]{q, until, err})
	}
	return a, unavailable(l.what, err)
}

// parted reports whether other items may be the reason why an item got no answer. Without a connection they are not.
func parted(err error) bool {
	var s *coalesce.Shared
	return errors.As(err, &s) && (coalesce.Late(err) || !coalesce.Silent(err))
}
