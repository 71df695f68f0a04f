package cli

import (
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/crontab"
)

// targetsHelp is the same in the help of each command that has --to.
const targetsHelp = `TARGET is what fires the jobs:

  crontab          a file of the app's own, /etc/cron.d/dibs-APP
  crontab:/PATH    another file with users in it: /etc/crontab, or one of /etc/cron.d
  crontab:USER     the table of a user, read and written by crontab(1)

What is not dibs's stays byte for byte.`

// targetOptions say where entries are.
type targetOptions struct {
	to, path string
}

func (o *targetOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "the `TARGET`: crontab, crontab:/PATH or crontab:USER")
	f.StringVar(&o.path, "path", crontab.DefaultPath, "the PATH that jobs find")
}

// A place where entries are, as --to names it.
type target struct {
	deploy.Target
	// system says that its entries have a user.
	system bool
	// zone is what its times are read in.
	zone *time.Location
}

// open understands --to for an app.
func (o targetOptions) open(app string) (target, error) {
	kind, where, named := strings.Cut(o.to, ":")
	options := crontab.Options{Path: o.path}
	t := target{zone: hostZone()}
	var err error
	switch {
	case o.to == "":
		return t, usage(errors.New("no target: name it with --to, as in --to crontab"))
	case kind != "crontab" || named && where == "":
		return t, usage(fmt.Errorf("--to %q: want crontab, crontab:/PATH or crontab:USER", o.to))
	case !named:
		t.Target, err = crontab.NewFile(crontab.DefaultFile(app), options)
		t.system = true
	case strings.Contains(where, "/"):
		if !filepath.IsAbs(where) {
			return t, usage(fmt.Errorf("--to %s: want an absolute path", o.to))
		}
		t.Target, err = crontab.NewFile(where, options)
		t.system = true
	default:
		if me, e := user.Current(); e == nil && me.Username == where {
			where = ""
		}
		t.Target, err = crontab.NewUser(where, "", options)
	}
	if err != nil {
		return t, usage(fmt.Errorf("--to %s: %w", o.to, err))
	}
	return t, nil
}
