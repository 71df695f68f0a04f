package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/store/all"
	"github.com/dibs-run/dibs/store/redis"
)

// needs says what a command needs of the store that it opens.
type needs int

const (
	// prepares: the first use of a store prepares it, because this command sets stores up, runs work or enqueues it.
	prepares needs = iota
	// looks: the command only reads. If nobody has prepared the store, it fails and creates nothing
	// (store.Config.Read).
	looks
	// acts: the command changes what is there: it breaks a lease, pauses a job, cancels a task. Where nobody has
	// prepared the store there is nothing to change, so it fails as those that look.
	acts
)

// needsOf is what each command that opens a store needs of it, be it the store that it names or this host's own
// directory.
var needsOf = map[string]needs{
	"dibs check":         looks,
	"dibs doctor":        looks,
	"dibs explain":       looks,
	"dibs history":       looks,
	"dibs init":          prepares,
	"dibs job backfill":  acts,
	"dibs job forget":    acts,
	"dibs job list":      looks,
	"dibs job pause":     acts,
	"dibs job resume":    acts,
	"dibs job show":      looks,
	"dibs job trigger":   prepares,
	"dibs lambda":        prepares,
	"dibs lease break":   acts,
	"dibs lease list":    looks,
	"dibs lease show":    looks,
	"dibs list":          looks,
	"dibs metrics":       looks,
	"dibs queue clear":   acts,
	"dibs queue drain":   acts,
	"dibs queue limit":   acts,
	"dibs queue list":    looks,
	"dibs queue pause":   acts,
	"dibs queue resume":  acts,
	"dibs queue show":    looks,
	"dibs queue workers": looks,
	"dibs run":           prepares,
	"dibs serve":         prepares,
	"dibs server list":   looks,
	"dibs show":          looks,
	"dibs status":        looks,
	"dibs task cancel":   acts,
	"dibs task delete":   acts,
	"dibs task discard":  acts,
	"dibs task edit":     acts,
	"dibs task enqueue":  prepares,
	"dibs task list":     looks,
	"dibs task move":     acts,
	"dibs task promote":  acts,
	"dibs task retry":    acts,
	"dibs task show":     looks,
	"dibs trigger":       prepares,
	"dibs work":          prepares,
}

// needsKey is where a context says what is needed of the stores that are opened under it.
type needsKey struct{}

func toRead(ctx context.Context) context.Context { return context.WithValue(ctx, needsKey{}, looks) }

// markNeeds tells a command's context what needsOf says of it.
func markNeeds(cmd *cobra.Command, _ []string) {
	cmd.SetContext(context.WithValue(cmd.Context(), needsKey{}, needsOf[cmd.CommandPath()]))
}

// openStore opens any store, as the context says.
func openStore(ctx context.Context, c store.Config) (*store.Store, error) {
	redis.Quiet()
	need, _ := ctx.Value(needsKey{}).(needs)
	if need == acts { // an opening that prepares nothing shows whether there is anything to change
		look, err := openAs(ctx, c, true)
		if err != nil {
			return nil, err
		}
		if look.Close != nil {
			_ = look.Close()
		}
	}
	return openAs(ctx, c, c.Read || need == looks)
}

func openAs(ctx context.Context, c store.Config, read bool) (*store.Store, error) {
	c.Read = read
	s, err := all.OpenConfig(ctx, c)
	if err != nil && !errors.Is(err, store.ErrNotPrepared) { // whose cure names the store
		return nil, storeError{c.String(), err}
	}
	return s, err
}
