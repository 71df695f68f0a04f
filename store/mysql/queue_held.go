package mysql

import "slices"

// holding says whether slots of limits are held back, as grants of leases are (rules Q5, L9): a server that was
// promoted may not know all slots that were given.
type holding int

const (
	goesOn  holding = iota
	isHeld          // until the hold-back ends
	unknown         // the namespace does not know this server
)

// holdBack makes this server known to the namespace, as an acquire does: that begins the hold-back.
func (f *fetch) holdBack(h holding) error {
	if h != unknown {
		return nil
	}
	return f.q.holdBack(f.ctx, new(allowance), 0)
}

// leave drops candidates whose limit's slots are held back. The worker's next poll meets them again.
func (f *fetch) leave(subs []*subQueue) {
	for _, l := range subs {
		l.found = slices.DeleteFunc(l.found, func(c candidate) bool { return c.limit != nil })
	}
}
