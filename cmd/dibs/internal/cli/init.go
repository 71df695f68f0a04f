package cli

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/store/all"
	"github.com/dibs-run/dibs/tick"
)

// initOptions are the flags of `dibs init`.
type initOptions struct {
	store string
	print bool
	out   format
}

// readyView is what is said of a store that is prepared; its form is stable.
type readyView struct {
	Store        string   `json:"store"`
	Namespace    string   `json:"namespace"`
	Installation string   `json:"installation"`
	MaxTTL       float64  `json:"max_ttl_seconds"`
	Outage       float64  `json:"outage_seconds"` // the silence of the store that a run survives, from its beginning
	Prepared     []string `json:"prepared"`
	Notes        []string `json:"notes"`
}

func newInit(e env) *cobra.Command {
	o := initOptions{}
	cmd := &cobra.Command{Use: "init", Short: "Prepare or upgrade a store",
		Long: `Prepare a store, or upgrade it to this version. You may repeat it.

It also declares an empty store new, so that nothing has to wait. Without it, the first use prepares the
store and grants nothing for one TTL, in case the store was emptied while leases were held.`,
		Example: "  dibs init --store postgres://dibs@db/app\n  dibs init --store 'redis://cache:6379/0?ttl=60s'\n  dibs init --store mysql://dibs@db/app --print",
		Args:    exactly(0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runInit(cmd.Context(), e, o) }}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	cmd.Flags().BoolVar(&o.print, "print", false, "only print the schema, so that another person can apply it")
	return cmd
}

func runInit(ctx context.Context, e env, o initOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	a, err := resolve(o.store)
	if err != nil {
		return usage(err)
	}
	if o.print {
		return printMigrations(e, a)
	}
	a.Init = true
	p, err := open(ctx, a.Config, output.TextLogger(e.stderr, slog.LevelInfo))
	if err != nil {
		return err
	}
	defer p.close()
	if err := firstQuestion(ctx, p); err != nil {
		return storeError{a.String(), err}
	}
	props, outage := p.store.Properties, p.Keeper.Margin().Survives().Round(time.Millisecond)
	view := readyView{a.String(), a.Namespace, props.InstallationID, props.MaxTTL.Seconds(), outage.Seconds(),
		append([]string{}, p.store.Prepared...), append([]string{}, props.Weaker...)}
	var words strings.Builder
	for _, line := range p.store.Prepared {
		fmt.Fprintln(&words, line)
	}
	fmt.Fprintf(&words, "%s is ready\n", a)
	fmt.Fprintf(&words, "namespace     %s\n", a.Namespace)
	fmt.Fprintf(&words, "installation  %s (to accept no other store: ?expect_store=%s)\n", props.InstallationID, props.InstallationID)
	fmt.Fprintf(&words, "longest TTL   %s: a run survives %s without an answer of the store\n", props.MaxTTL, outage)
	for _, w := range props.Weaker {
		fmt.Fprintln(&words, "note:", w)
	}
	return e.answer(o.out, view, words.String())
}

// firstQuestion is for what a store prepares only when it is asked, such as the directory's database. Otherwise
// that is left to the first tick, which has the time of one request for it: too little on a busy host.
func firstQuestion(ctx context.Context, p *opened) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	_, err := p.Ticks.Jobs(ctx, tick.JobQuery{Limit: 1})
	return err
}

func printMigrations(e env, a address) error {
	d, err := all.For(a.Config)
	if err != nil {
		return usage(err)
	}
	if d.Migrations == nil {
		fmt.Fprintf(e.stdout, "-- %s has no schema: nothing to apply beforehand\n", a.URL.Scheme)
		return nil
	}
	return fs.WalkDir(d.Migrations, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := fs.ReadFile(d.Migrations, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.stdout, "-- %s\n%s\n", path, b)
		return err
	})
}
