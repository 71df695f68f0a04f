package scheduler

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/tick"
)

// A Spool keeps, on this host and through a crash, what could not be delivered to a store.
type Spool interface {
	// Put returns once the item is on the disk.
	Put(Item) error
	// Deliver passes each item for this backend to give, oldest first, and removes those for which give returns nil.
	// An item for which it returns ErrNotYet is kept, and does not delay the others; ErrEnough ends the delivery,
	// and keeps all that is left in its place.
	Deliver(give func(Item) error) error
}

// Item is something to deliver to the store later: an outcome, that this host could not claim a tick, or an event.
type Item struct {
	Close       *tick.CloseRequest `json:"close,omitempty"`
	Unavailable *Unclaimed         `json:"unavailable,omitempty"`
	// Event has an ID and an At. For equal events, a spool may pass one that stands for all, with the ID of the
	// first.
	Event *history.Event `json:"event,omitempty"`
}

// ErrNotYet is returned to a Spool for an item that must be kept until its time has come.
var ErrNotYet = errors.New("not yet")

// ErrEnough is returned to a Spool to stop its delivery, and by Deliver if something is left.
var ErrEnough = errors.New("the rest is delivered later")

// String returns the item as JSON.
func (i Item) String() string {
	b, err := json.Marshal(i)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Unclaimed is a tick that this host wanted to claim and could not.
type Unclaimed struct {
	Job string    `json:"job"`
	At  time.Time `json:"tick"`
	// Until is when other servers can no longer start the tick: before that, it is theirs. Zero: they cannot now.
	Until time.Time `json:"until,omitzero"`
}
