package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// reads says of every command that opens a store whether it only looks. For those that do, opening one prepares
// nothing (store.Config.Read), be it the store that they name or this host's own directory. For the others the
// first use prepares it.
var reads = map[string]bool{
	"dibs doctor":        true,
	"dibs explain":       true,
	"dibs history":       true,
	"dibs init":          false,
	"dibs job backfill":  false, // --dry-run looks
	"dibs job forget":    false,
	"dibs job list":      true,
	"dibs job pause":     false,
	"dibs job resume":    false,
	"dibs job show":      true,
	"dibs job trigger":   false,
	"dibs lambda":        false,
	"dibs lease break":   false,
	"dibs lease list":    true,
	"dibs lease show":    true,
	"dibs list":          true,
	"dibs queue clear":   false,
	"dibs queue drain":   false,
	"dibs queue limit":   false,
	"dibs queue list":    true,
	"dibs queue pause":   false,
	"dibs queue resume":  false,
	"dibs queue show":    true,
	"dibs queue workers": true,
	"dibs run":           false,
	"dibs serve":         false,
	"dibs show":          true,
	"dibs task cancel":   false,
	"dibs task delete":   false,
	"dibs task discard":  false,
	"dibs task edit":     false,
	"dibs task enqueue":  false,
	"dibs task list":     true,
	"dibs task move":     false,
	"dibs task promote":  false,
	"dibs task retry":    false,
	"dibs task show":     true,
	"dibs trigger":       false,
	"dibs work":          false,
}

// readingKey is where a context says that stores are opened to be looked at.
type readingKey struct{}

func toRead(ctx context.Context) context.Context { return context.WithValue(ctx, readingKey{}, true) }

func onlyReads(ctx context.Context) bool { return ctx.Value(readingKey{}) != nil }

// markReading tells a command's context what reads says of it.
func markReading(cmd *cobra.Command, _ []string) {
	if reads[cmd.CommandPath()] {
		cmd.SetContext(toRead(cmd.Context()))
	}
}
