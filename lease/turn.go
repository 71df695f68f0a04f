package lease

import (
	"context"
	"errors"
	"time"
)

// Turn takes a key for a span, in store time. Nothing renews or releases it, so it needs no guard: once the span is
// over, it is the turn of whoever asks first, here or elsewhere. So a turn keeps nobody from anything for longer than
// that, whatever happens to who has it; and it proves that leases can be had. It costs one request.
//
// It does not wait. mine is false if it is another's turn, or the store grants nothing for a while, which HeldBack
// tells then. Errors are those of Acquire. Of w, Key, Holder and OnHeldBack count. It is safe for concurrent use.
func (k *Keeper) Turn(ctx context.Context, w Want, span time.Duration) (mine bool, err error) {
	w.Holder.ID = NewNonce()
	a := &attempt{keeper: k, want: w}
	for {
		_, err := a.ask(ctx, span)
		var (
			held *HeldError
			back heldBackError
		)
		switch {
		case err == nil:
			return true, ctx.Err()
		case errors.As(err, &held):
			k.trim(ctx, held)
			return false, nil
		case errors.As(err, &back):
			a.tellHeldBack(back)
			return false, nil
		case !a.again(err):
			return false, err
		}
		if err := k.Sync(ctx); err != nil {
			return false, err
		}
	}
}
