package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/crontab"
	"github.com/dibs-run/dibs/internal/conffile"
)

const pruneHelp = `Delete the entries of a manifest's app that are no longer in the manifest, and change nothing else. With --all,
delete all entries of an app; the argument is then the app's name.

Entries that were edited by hand stay; --overwrite deletes them too.

` + targetsHelp

func newPrune(e env) *cobra.Command {
	o, all := deployOptions{}, false
	cmd := &cobra.Command{Use: "prune MANIFEST --to TARGET", Short: "Delete the entries that are no longer in the manifest", Long: pruneHelp,
		Example: "  dibs prune jobs.yaml --to crontab --dry-run\n  dibs prune jobs.yaml --to crontab\n  dibs prune --all shop --to crontab",
		Args:    exactly(1, "one manifest, or with --all one app"),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := wanted{app: args[0]}
			var err error
			if all {
				w.target, err = o.targetOptions.open(w.app)
			} else {
				w, err = o.entries(cmd.Context(), e, args[0])
			}
			if err != nil {
				return err
			}
			return o.request(cmd.Context(), e, w, deploy.Prune{App: w.app, Formerly: o.formerly, Entries: w.entries, Overwrite: o.overwrite})
		}}
	o.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all entries of the app that the argument names")
	o.writeFlags(cmd)
	return cmd
}

const adoptHelp = `Take over existing entries that provably do what the manifest's entries do:
- a line that calls dibs trigger as apply would write it;
  - a line that does what the job itself does: the same schedule, command, user, directory and environment.
    Such lines become entries for dibs trigger. dibs import crontab writes a manifest for which all match;
  - an entry of cronix for the same app, job and schedule.

A similar line that is not provably the same stays, and is shown with the reason.

` + targetsHelp

func newAdopt(e env) *cobra.Command {
	o := deployOptions{}
	cmd := &cobra.Command{Use: "adopt MANIFEST --to TARGET", Short: "Take over lines of a crontab that do what the jobs do", Long: adoptHelp,
		Example: `  dibs import crontab /etc/crontab --app shop > jobs.yaml
  dibs adopt jobs.yaml --to crontab:/etc/crontab --dry-run
  dibs adopt jobs.yaml --to crontab:/etc/crontab`,
		Args: exactly(1, "one manifest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.elsewhere = true
			w, err := o.entries(cmd.Context(), e, args[0])
			if err != nil {
				return err
			}
			return o.request(cmd.Context(), e, w, deploy.Adopt{Entries: w.entries})
		}}
	o.flags(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be written, and write nothing")
	return cmd
}

const ejectHelp = `Turn entries back into plain lines: dibs removes its mark and leaves the text, so they run as before. They no
longer belong to dibs. APP means all entries of an app, APP/JOB those of one job.

` + targetsHelp

func newEject(e env) *cobra.Command {
	o := deployOptions{}
	cmd := &cobra.Command{Use: "eject APP[/JOB] --to TARGET", Short: "Turn entries back into plain lines", Long: ejectHelp,
		Example: "  dibs eject shop --to crontab\n  dibs eject shop/invoices --to crontab:/etc/crontab --dry-run",
		Args:    exactly(1, "one app, or one job as APP/JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, name, one := strings.Cut(args[0], "/")
			w := wanted{app: app}
			r := deploy.Eject{App: app}
			if one {
				r.Jobs = []string{name}
			}
			var err error
			if w.target, err = o.targetOptions.open(app); err != nil {
				return err
			}
			return o.request(cmd.Context(), e, w, r)
		}}
	o.targetOptions.flags(cmd)
	formatFlag(cmd, &o.out)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be written, and write nothing")
	return cmd
}

// request plans a request, carries it out and shows it.
func (o *deployOptions) request(ctx context.Context, e env, w wanted, r deploy.Request) error {
	if err := o.out.check(); err != nil {
		return err
	}
	p, err := deploy.Prepare(ctx, w.target, r)
	if err != nil {
		return err
	}
	all := []planned{{w.target, r, p}}
	if err := o.carryOut(ctx, e, w, all); err != nil {
		return err
	}
	if err := o.print(e, all, w, "did"); err != nil {
		return err
	}
	if has(all, deploy.Unmatched) || has(all, deploy.Edited) {
		return statusError{exitDrift, nil}
	}
	return nil
}

func newImport(e env) *cobra.Command {
	return group(&cobra.Command{Use: "import", Short: "Turn a crontab into a manifest"}, newImportCrontab(e))
}

const importHelp = `Print a manifest that does what a crontab does, and list on standard error what could not be converted, or not
exactly, with the reason. Comments above an entry become comments of its job; variables, the zone and each user's
home directory become part of the job. FILE is a crontab: /etc/crontab, a file of /etc/cron.d, a user's table such as
/etc/crontabs/USER, or the output of crontab -l; - or no FILE is standard input. Nothing is changed: dibs adopt then
takes the lines over.

The jobs have concurrency_scope host: each server runs them, as with the crontab. Change that to global for jobs
that one server of the fleet should run. Processes that a job leaves behind stay, as under cron (leftovers: leave).
Cron starts an entry also while its last run is at work; with concurrency Forbid dibs skips that tick.`

func newImportCrontab(e env) *cobra.Command {
	o := crontab.ImportOptions{}
	table := ""
	cmd := &cobra.Command{Use: "crontab [FILE]", Short: "Print a manifest that does what a crontab does", Long: importHelp,
		Example: `  dibs import crontab /etc/crontab --app shop > jobs.yaml
  crontab -l | dibs import crontab --app shop > jobs.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%w: want one crontab, or none", errUsage)
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			file := "-"
			if len(args) == 1 {
				file = args[0]
			}
			path := ""
			if file != "-" {
				path, _ = filepath.Abs(file)
			}
			system, login := tableAt(path)
			switch table {
			case "":
				o.System = system
			case "system", "user":
				o.System = table == "system"
			default:
				return usage(fmt.Errorf("--table %q: want system or user", table))
			}
			if me, err := user.Current(); !o.System && login != "" && (err != nil || me.Username != login) {
				o.Login, o.SetUser = login, true
			}
			if o.Zone == "" {
				host, err := zoneToImport("/etc")
				if err != nil {
					return usage(err)
				}
				o.Zone = host.String()
			}
			return runImport(e, o, file, table != "")
		}}
	f := cmd.Flags()
	f.StringVar(&o.App, "app", "", "the `NAME` of the manifest's app (required)")
	f.StringVar(&o.Zone, "zone", "", "the `ZONE` in which cron reads the table (default: the host's)")
	f.StringVar(&table, "table", "", "system: its entries have a user; user: they have none\n(default: system for a FILE in /etc, except /etc/crontabs)")
	return cmd
}

// zoneToImport is the host's zone, of etc/localtime; the error says how else to name one.
func zoneToImport(etc string) (*time.Location, error) {
	loc, err := zoneIn(etc)
	if err != nil {
		err = fmt.Errorf("%w; or give the zone, as in --zone Europe/Berlin", err)
	}
	return loc, err
}

// tableAt is what a crontab's path says of it: whether its entries have a user, and, if it is where a cron keeps its
// users' tables, whose it is.
func tableAt(path string) (system bool, login string) {
	switch filepath.Dir(path) {
	case "/etc/crontabs", "/var/spool/cron/crontabs", "/var/spool/cron", "/var/spool/cron/tabs": // busybox's, Debian's, cronie's, SUSE's
		return false, filepath.Base(path)
	}
	return strings.HasPrefix(path, "/etc/"), ""
}

// mostCrontab is the largest crontab that is read.
const mostCrontab = 1 << 20

// runImport imports a crontab; asked states that the kind of its table was given.
func runImport(e env, o crontab.ImportOptions, file string, asked bool) error {
	if o.App == "" {
		return usage(errors.New("no app: name it with --app, as in --app shop"))
	}
	var data []byte
	var err error
	if file == "-" {
		file = "standard input"
		if data, err = io.ReadAll(io.LimitReader(e.stdin, mostCrontab+1)); err == nil && len(data) > mostCrontab {
			err = errors.New("standard input: it has more than 1 MiB, too much for a crontab")
		}
	} else {
		data, err = conffile.Read(file, mostCrontab)
	}
	if err != nil {
		return err
	}
	if name, yes := crontab.LooksSystem(data); yes && !o.System && !asked {
		return usage(fmt.Errorf("%s: each entry begins with a user (%s), as in a system's table: give --table system, or --table user if that is the program's name", file, name))
	}
	text, left, err := crontab.Import(data, o)
	for _, l := range left {
		is := " is left"
		if l.Kept {
			is = ""
		}
		if l.Userless && !asked {
			l.Reason += "; if the entries of this table have no user, give --table user"
		}
		fmt.Fprintf(e.stderr, "dibs: line %d%s: %s\n      %s\n", l.Line, is, l.Reason, strings.ReplaceAll(l.Text, "\n", "\n      "))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	fmt.Fprintln(e.stderr, "dibs: cron starts an entry also while its last run is at work; the jobs have concurrency Forbid, so dibs skips such a tick")
	_, err = e.stdout.Write(text)
	return err
}
