package scheduler

import (
	"context"
	"errors"
	"testing"
)

// What is remembered is kept at its bound too, when another outcome comes while it is being told.
func TestWhatIsRememberedIsNotForgottenAtItsBound(t *testing.T) {
	o := &(&Backend{}).parts().outbox
	for range mostOverflow {
		o.overflow.add(Item{})
	}
	err := o.deliverOverflow(context.Background(), func(Item) error {
		o.overflow.add(Item{}) // of a run that ends now
		return errors.New("the store is away")
	})
	if n := len(o.overflow.items); err == nil || n < mostOverflow {
		t.Errorf("%d of %d items are left, %v", n, mostOverflow, err)
	}
}
