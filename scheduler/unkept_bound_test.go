package scheduler

import (
	"context"
	"errors"
	"testing"
)

// What is remembered is kept at its bound too, when another outcome comes while it is being told.
func TestWhatIsRememberedIsNotForgottenAtItsBound(t *testing.T) {
	p := &Backend{}
	for range mostUnkept {
		p.unkept.add(Item{})
	}
	err := p.deliverUnkept(context.Background(), func(Item) error {
		p.unkept.add(Item{}) // of a run that ends now
		return errors.New("the store is away")
	})
	if n := len(p.unkept.items); err == nil || n < mostUnkept {
		t.Errorf("%d of %d items are left, %v", n, mostUnkept, err)
	}
}
