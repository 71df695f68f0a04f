package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/cmd/dibs/internal/status"
	"github.com/dibs-run/dibs/lease"
)

// The exit statuses of `dibs check`, as monitors understand them.
const (
	checkOK       = 0
	checkWarning  = 1
	checkCritical = 2
	checkUnknown  = 3
)

// checkOptions are the flags of `dibs check`.
type checkOptions struct {
	store                 string
	jobs                  []string
	maxAge, late, timeout time.Duration
	queue                 string
	most                  status.QueueBounds
}

const checkHelp = `Say in one line, for a monitor, whether all is well: as a plugin of Nagios, Icinga, Zabbix or Sensu.

Without arguments it checks the whole fleet, by what dibs status shows. With jobs (or keys of dibs run), only these: it
is critical if nobody serves them, a tick is late, or the last run ended badly; with --max-age also if the last success
is longer ago, or there was none. With --queue, only that queue: it is critical if tasks wait and no worker takes them.

Exit status: 0 OK, 1 WARNING, 2 CRITICAL (also if the store does not answer), 3 UNKNOWN (a name that the store does not
know, a wrong flag, a store that answers, but not to all within --timeout). After | come numbers in the form of Nagios'
performance data.`

func newCheck(e env) *cobra.Command {
	o := checkOptions{}
	cmd := &cobra.Command{Use: "check [JOB…]", Short: "Check the fleet, some jobs or a queue, for a monitor", Long: checkHelp,
		Example: "  dibs check\n  dibs check backup --max-age 26h\n  dibs check shop/invoices shop/report --late 5m\n  dibs check --queue mail --oldest 10m --depth 5000",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.jobs = args
			return runCheck(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	f := cmd.Flags()
	f.Var(positive[time.Duration](&o.maxAge), "max-age", "critical if a JOB has not succeeded for this long")
	f.Var(positive[time.Duration](&o.late), "late", "how long a tick may be due and unclaimed (default 15s)")
	f.StringVar(&o.queue, "queue", "", "check this queue")
	f.Var(positive[time.Duration](&o.most.Oldest), "oldest", "critical if the oldest task of the queue has waited for longer than this")
	f.Var(positive[int](&o.most.Depth), "depth", "critical if more tasks than this wait in the queue")
	o.timeout = openTimeout
	f.Var(positive[time.Duration](&o.timeout), "timeout", "critical without an answer within this time, unknown without all of them")
	return cmd
}

func (o checkOptions) check() error {
	switch {
	case o.queue == "" && o.most != (status.QueueBounds{}):
		return usage(errors.New("--oldest and --depth are bounds of a queue: name it with --queue"))
	case o.queue != "" && (len(o.jobs) > 0 || o.maxAge > 0 || o.late > 0):
		return usage(errors.New("--queue checks a queue: check jobs by a command of their own"))
	case o.maxAge > 0 && len(o.jobs) == 0:
		return usage(errors.New("--max-age is how old the last success of a job may be: name the job"))
	case len(o.jobs) > 100:
		return usage(fmt.Errorf("%d jobs: want at most 100", len(o.jobs)))
	}
	return nil
}

// runCheck prints the verdict. Its error is of the use of flags only: a monitor reads standard output.
func runCheck(ctx context.Context, e env, o checkOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	a, err := resolve(o.store)
	if err != nil {
		return usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	v, code, err := o.verdict(ctx, e, a)
	if err != nil {
		v, code = status.Verdict{Text: oneLine(err.Error())}, checkUnknown
		switch {
		case errors.Is(err, status.ErrSlow):
			v.Text = storeAway(a.String(), err, time.Time{}).Headline()
		case isAway(err) || ctx.Err() != nil:
			v.Text, code = storeAway(a.String(), err, time.Time{}).Headline(), checkCritical
		}
	}
	e.tellVerdict(v, code)
	return statusError{code, nil}.orNil()
}

// isAway reports whether a store does not answer, rather than that it does not let this user in.
func isAway(err error) bool {
	return errors.Is(err, lease.ErrUnavailable) && !errors.Is(err, fs.ErrPermission)
}

// orNil is the error, or nil for status 0.
func (e statusError) orNil() error {
	if e.status == 0 {
		return nil
	}
	return e
}

func (o checkOptions) verdict(ctx context.Context, e env, a address) (v status.Verdict, code int, err error) {
	p, err := open(ctx, a.Config, logTo(e))
	if err != nil {
		return v, 0, err
	}
	defer p.close()
	if o.queue == "" && !p.store.Ticked() && len(o.jobs) > 0 || o.queue != "" && p.store.Tasks == nil {
		return v, 0, fmt.Errorf("store %s keeps neither jobs nor queues: %w", p.config, errors.ErrUnsupported)
	}
	within := o.timeout
	if by, ok := ctx.Deadline(); ok { // the rest of the time is for the question whether the store answers at all
		within = max(time.Until(by)*3/4, time.Until(by)-time.Second, 1)
	}
	var f status.Facts
	if err := status.Within(ctx, within, p.Keeper, func(ctx context.Context) (err error) {
		if len(o.jobs) > 0 {
			if o.jobs, err = o.known(ctx, p); err != nil {
				return err
			}
		}
		f, err = status.Read(ctx, p.Backend.Backend, p.store, status.Options{Jobs: o.jobs, Patience: o.late})
		return err
	}); err != nil {
		return v, 0, err
	}
	switch {
	case o.queue != "":
		known := false
		if v, known = f.CheckQueue(o.queue, o.most); !known {
			return v, 0, fmt.Errorf("queue %s has neither tasks nor workers in %s", o.queue, p.config)
		}
	case len(o.jobs) > 0:
		var unknown []string
		if v, unknown = f.CheckJobs(o.jobs, o.maxAge); len(unknown) > 0 {
			err = fmt.Errorf("no job and no key %s is known in %s%s", strings.Join(unknown, ", "), p.config, p.meant(ctx, unknown[0]))
			if v.State != status.Critical {
				return v, 0, err
			}
			v.Text += "; " + err.Error()
		}
	default:
		if f.Empty() {
			return v, 0, fmt.Errorf("nothing is on record in %s: no server, no job, no run and no task; it is new or lost everything, or it is another store than the fleet's", p.config)
		}
		v = status.Judge(f).Whole()
	}
	return v, map[status.Severity]int{status.OK: checkOK, status.Warning: checkWarning, status.Critical: checkCritical}[v.State], nil
}

// known returns the jobs with the names that the store knows them by: they may be given as in trigger, with a point,
// and a host's own job has a copy here for each host.
func (o checkOptions) known(ctx context.Context, p *opened) (all []string, err error) {
	for _, job := range o.jobs {
		found := []string{}
		for _, name := range names(job) {
			ok, err := isKnown(ctx, p, []string{name})
			if err != nil {
				return nil, err
			}
			if ok {
				found = append(found, name)
				break
			}
			copies, err := status.Copies(ctx, p.Backend.Backend, name)
			if err != nil {
				return nil, err
			}
			found = append(found, copies...)
		}
		if len(found) == 0 {
			found = append(found, job)
		}
		for _, name := range found {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all, nil
}

// tellVerdict prints one line in the form of a plugin: https://nagios-plugins.org/doc/guidelines.html. A text has no
// bar, which would begin the numbers.
func (e env) tellVerdict(v status.Verdict, code int) {
	word := []string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[code]
	line := fmt.Sprintf("DIBS %s - %s", word, strings.ReplaceAll(printable(oneLine(v.Text)), "|", "/"))
	for i, p := range v.Perf {
		if i == 0 {
			line += " |"
		}
		line += fmt.Sprintf(" %s=%s%s;%s;%s;0", label(p.Name), strconv.FormatFloat(math.Round(p.Value*1000)/1000, 'f', -1, 64), p.Unit, p.Warn, p.Crit)
	}
	fmt.Fprintln(e.stdout, line)
}

// label is the name of a number, quoted where it has to be. It has no equals sign.
func label(name string) string {
	name = strings.NewReplacer("=", "_", "|", "_", "'", "''").Replace(printable(name))
	if strings.ContainsAny(name, " '") {
		return "'" + name + "'"
	}
	return name
}
