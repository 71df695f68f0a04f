package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/eventbridge"
	"github.com/dibs-run/dibs/internal/conffile"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/schedule"
)

// mostOptions is the largest FILE of --to eventbridge:FILE that is read.
const mostOptions = 64 << 10

// eventBridge opens an app's schedules in EventBridge, or with --render only what writes them as a document.
func (o targetOptions) eventBridge(app, file string) (t target, err error) {
	if file == "" {
		return t, errors.New("no file that says where tasks are started: name it, as in --to eventbridge:ecs.yaml")
	}
	data, err := conffile.Read(file, mostOptions)
	if err != nil {
		return t, err
	}
	options, err := eventbridge.ParseOptions(data)
	if err != nil {
		return t, err
	}
	options.Elsewhere = o.elsewhere
	t = target{name: "EventBridge", translate: func(s *schedule.Schedule) ([]string, bool, error) {
		tr, err := eventbridge.Translate(s)
		return tr.Lines, tr.More, err
	}}
	t.document = func(form string, entries []deploy.Entry) ([]byte, error) {
		return eventbridge.Template(form, app, entries, options)
	}
	if o.render == "" {
		t.Target, err = eventbridge.New(app, options)
	}
	return t, err
}

// binaryInContainer is where dibs is in the images of containers, unless --binary says otherwise.
const binaryInContainer = "/usr/local/bin/dibs"

// inContainer says whether entries run in containers: their store, their secrets and their user are those of the
// container, and not of this host.
func (o targetOptions) inContainer() bool { return strings.HasPrefix(o.to, "eventbridge") }

// nameStoreInContainer hands on a store that was named; else entries find the container's.
func (o entryOptions) nameStoreInContainer(c *deploy.Entry) error {
	c.Command = append(c.Command, "--contended-exit", "0") // no failed task where another has the tick
	if o.store == "" {
		return nil
	}
	a, err := resolve(o.store)
	switch {
	case err != nil:
		return err
	case a.Secret():
		return fmt.Errorf("--store %s: it holds a password, and others can read entries: give the container the address in DIBS_STORE, from a secret", a)
	}
	c.Command = append(c.Command, "--store", o.store)
	return nil
}

// scopeInContainer refuses locks that end with the container that took them.
func (o entryOptions) scopeInContainer(spec *job.Spec) error {
	if !spec.ScopeDeclared && o.serveOptions.scope != "" {
		spec.Policy.Scope = job.Scope(o.serveOptions.scope)
	}
	if spec.Policy.Scope != job.Global {
		return fmt.Errorf("%s: its concurrency_scope is host, and each tick runs in a container of its own, so it would guard nothing (%s): make it global, or say --default-scope global",
			spec.Key(), o.to)
	}
	return nil
}

// leastLate is how late a tick may start where EventBridge fires: it does so within a minute, and a task takes its
// time.
const leastLate = 3 * time.Minute

// startsLate notes a job whose ticks may be too late when their tasks begin.
func startsLate(id deploy.ID, spec *job.Spec, s *schedule.Schedule) []string {
	late := cmp.Or(spec.Policy.StartingDeadline, min(s.Period()/2, 5*time.Minute))
	if late == 0 || late >= leastLate { // 0: it has one tick
		return nil
	}
	return []string{fmt.Sprintf("%s: a tick may start %s late at most, and EventBridge needs up to a minute to fire and ECS as much to start a task: set starting_deadline_seconds to %d or more",
		id, late, int(leastLate/time.Second))}
}

func (o *targetOptions) renderFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.render, "render", "", "print the entries as a document of this `FORM` and write nothing: of eventbridge:FILE\n"+
		strings.Join(eventbridge.Forms, " or "))
}

// printDocument prints the entries of a manifest in the form of --render. Notes go beside it.
func (o *deployOptions) printDocument(ctx context.Context, e env, name string) error {
	w, err := o.entries(ctx, e, name)
	if err != nil {
		return err
	}
	data, err := w.target.document(o.render, w.entries)
	if err != nil {
		return usage(fmt.Errorf("--to %s: %w", o.to, err))
	}
	for _, n := range w.notes {
		fmt.Fprintf(e.stderr, "note: %s\n", n)
	}
	_, err = e.stdout.Write(data)
	return err
}
