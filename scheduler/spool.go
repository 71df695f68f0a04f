package scheduler

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/tick"
)

// A Spool keeps, on this host and through a crash, what a store could not be told.
type Spool interface {
	// Put returns once the item is on the disk.
	Put(Item) error
	// Deliver hands over each item for this backend, oldest first, and forgets those for which
	// give returns nil. One for which it returns ErrNotYet is kept, and holds up nothing; ErrEnough
	// ends the delivery, and keeps all that is left in its place.
	Deliver(give func(Item) error) error
}

// Item is one thing to tell the store later: an outcome, that this host could not claim a tick, or an
// event that nobody waits for.
type Item struct {
	Close       *tick.CloseRequest `json:"close,omitempty"`
	Unavailable *Unclaimed         `json:"unavailable,omitempty"`
	// Event has an ID and an At. Of those that are alike a spool may give one that stands for all,
	// with the ID of the first.
	Event *history.Event `json:"event,omitempty"`
}

// ErrNotYet is returned to a Spool for an item that is to be kept until its time has come.
var ErrNotYet = errors.New("not yet")

// ErrEnough is returned to a Spool that is to stop delivering, and by Deliver when something was left.
var ErrEnough = errors.New("the rest is delivered later")

// String is the item as JSON.
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
	// Until is when the tick can no longer be started by others: before that it is theirs. Zero: it
	// cannot now.
	Until time.Time `json:"until,omitzero"`
}
