package cli

import (
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/crontab"
	"github.com/dibs-run/dibs/deploy/systemd"
	"github.com/dibs-run/dibs/schedule"
)

// targetsHelp is the same in the help of each command that has --to.
const targetsHelp = `TARGET is the scheduler that starts the jobs:

  crontab          a file of the app's own, /etc/cron.d/dibs-APP
  crontab:/PATH    another file with users in it: /etc/crontab, or one of /etc/cron.d
  crontab:USER     the table of a user, read and written by crontab(1)
  systemd          timers of the system, in /etc/systemd/system
  systemd:user     timers of the current user
  systemd:/DIR     timers in a directory, without calling systemd
  eventbridge:FILE schedules of Amazon EventBridge that start tasks of ECS or a Lambda function (dibs
                   lambda); FILE says which, in YAML: region, cluster, task_definition, container,
                   subnets, security_groups, or function; and role, dead_letter_queue (the reference
                   has all of them)
  kubernetes       CronJobs in the namespace of the kubeconfig's current context, or of this pod;
                   also kubernetes:CONTEXT, kubernetes/NAMESPACE and kubernetes:CONTEXT/NAMESPACE

Lines that do not belong to dibs stay unchanged, byte for byte.`

// targetOptions say where entries are.
type targetOptions struct {
	to, path string
	// render is the form of a document to print, instead of a target to write to; elsewhere, that entries of others
	// are looked for in all places.
	render    string
	elsewhere bool
	podOptions
}

func (o *targetOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "the `TARGET`: "+strings.TrimPrefix(wantTarget, "want "))
	f.StringVar(&o.path, "path", crontab.DefaultPath, "the PATH of jobs in a crontab")
}

// A target is a place where entries are, as --to names it.
type target struct {
	deploy.Target
	// name is what fires there, in words.
	name string
	// translate writes a schedule in its language; more: it fires more often than the schedule is due.
	translate func(*schedule.Schedule) (lines []string, more bool, err error)
	// function: what fires there hands only the job and the tick to dibs lambda, and no flags.
	function bool
	// document writes entries in a form of --render, for targets that have one.
	document func(form string, entries []deploy.Entry) ([]byte, error)
}

const wantTarget = "want crontab, crontab:/PATH, crontab:USER, systemd, systemd:user, systemd:/DIR, eventbridge:FILE, or kubernetes with :CONTEXT and /NAMESPACE"

// open understands --to for an app.
func (o targetOptions) open(app string) (t target, err error) {
	kind, where, named := strings.Cut(o.to, ":")
	switch {
	case o.to == "":
		return t, usage(errors.New("no target: name it with --to, as in --to crontab"))
	case isKubernetes(o.to):
		if t, err = o.kubernetes(); err != nil {
			err = fmt.Errorf("--to %s: %w", o.to, err)
		}
	case kind != "crontab" && kind != "systemd" && kind != "eventbridge" || named && where == "":
		return t, usage(fmt.Errorf("--to %q: %s", o.to, wantTarget))
	case kind == "eventbridge":
		t, err = o.eventBridge(app, where)
	case o.render != "":
		return t, usage(fmt.Errorf("--render %s: %s has no such form; kubernetes and eventbridge:FILE have; for the others, dibs plan shows the text", o.render, kind))
	case strings.Contains(where, "/") && !filepath.IsAbs(where):
		return t, usage(fmt.Errorf("--to %s: want an absolute path", o.to))
	case kind == "crontab":
		t, err = o.crontab(app, where)
	default:
		t, err = timers(where)
	}
	if err != nil && !isKubernetes(o.to) {
		err = fmt.Errorf("--to %s: %w", o.to, err)
	}
	return t, usageOf(err)
}

func (o targetOptions) crontab(app, where string) (t target, err error) {
	options := crontab.Options{Path: o.path, LineByLine: crontab.LineByLine()}
	switch {
	case where == "":
		t.Target, err = crontab.NewFile(crontab.DefaultFile(app), options)
	case filepath.IsAbs(where):
		t.Target, err = crontab.NewFile(where, options)
	default:
		if me, e := user.Current(); e == nil && me.Username == where {
			where = ""
		}
		t.Target, err = crontab.NewUser(where, "", options)
	}
	if err != nil {
		return t, err
	}
	zone, err := hostZone()
	t.name, t.translate = "cron", func(s *schedule.Schedule) ([]string, bool, error) {
		tr, err := crontab.Translate(s, zone)
		return tr.Lines, tr.More, err
	}
	return t, err
}

func timers(where string) (t target, err error) {
	o := systemd.Options{User: where == "user"}
	switch {
	case filepath.IsAbs(where):
		o.Dir = where
	case where != "" && where != "user":
		return t, errors.New(wantTarget)
	}
	t.Target, err = systemd.New(o)
	t.name, t.translate = "systemd", func(s *schedule.Schedule) ([]string, bool, error) {
		tr, err := systemd.Translate(s)
		return tr.Lines, tr.More, err
	}
	return t, err
}
