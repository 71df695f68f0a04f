package mysql

import "slices"

// holding says whether slots of limits are held back, as grants of leases are (rules Q5, L9): a server that was
// promoted may not know who has one.
type holding int

const (
	goesOn  holding = iota
	isHeld          // until the hold-back ends
	unknown         // the namespace does not know this server
)

// holdBack has the namespace know this server, as an acquire does.
func (f *fetch) holdBack(h holding) error {
	if h != unknown {
		return nil
	}
	return f.q.holdBack(f.ctx, new(allowance), 0)
}

// leave lets those lie whose limit's slots are held back. The next look comes within the worker's poll.
func (f *fetch) leave(lanes []*lane) {
	for _, l := range lanes {
		l.found = slices.DeleteFunc(l.found, func(c candidate) bool { return c.limit != nil })
	}
}
