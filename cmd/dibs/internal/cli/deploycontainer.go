package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/kubernetes"
	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/schedule"
	"github.com/dibs-run/dibs/scheduler"
)

// binaryInContainer is where packages and the image of dibs have it.
const binaryInContainer = "/usr/bin/dibs"

// inContainer says whether entries run in containers: their store, their secrets and their user are those of the
// container, and not of this host.
func (o targetOptions) inContainer() bool {
	return o.inPods() || strings.HasPrefix(o.to, "eventbridge")
}

// nameStoreInContainer hands on a store that was named; else entries find the container's.
func (o entryOptions) nameStoreInContainer(c *deploy.Entry) error {
	c.Command = append(c.Command, "--contended-exit", "0") // no failed task or pod where another has the tick
	if o.store == "" {
		if o.inPods() {
			c.Env["DIBS_STORE_FILE"] = kubernetes.StorePath
		}
		return nil
	}
	a, err := resolve(o.store)
	switch {
	case err != nil:
		return err
	case a.Secret() && o.inPods():
		return fmt.Errorf("--store %s: it holds a password, and others can read entries: keep the address in a Secret (--pod-secret)", a)
	case a.Secret():
		return fmt.Errorf("--store %s: it holds a password, and others can read entries: give the container the address in DIBS_STORE, from a secret", a)
	case !a.shared():
		return fmt.Errorf("--store %s reaches only one host, and each container has its own: name a store that all of them reach", a)
	}
	c.Command = append(c.Command, "--store", o.store)
	return nil
}

// scopeInContainer refuses locks that end with the container that took them.
func (o entryOptions) scopeInContainer(spec *job.Spec) error {
	if !spec.ScopeDeclared && o.serveOptions.scope != "" {
		spec.Policy.Scope, spec.ScopeDeclared = job.Scope(o.serveOptions.scope), true
	}
	if spec.Policy.Scope != job.Global {
		return fmt.Errorf("%s: its concurrency_scope is host, and each tick runs in a container of its own, so it would guard nothing (%s): make it global, or give --default-scope global",
			spec.Key(), o.to)
	}
	return nil
}

// startWithin is how late a tick of the job may start, whichever it is.
func startWithin(spec *job.Spec) time.Duration {
	due, timed := time.Unix(0, 0), scheduler.Job{Spec: *spec}
	return timed.StartBy(due).Sub(due)
}

// leastLate is how late a tick may start at least where containers are started: EventBridge fires within a minute, and
// a task of ECS or a pod takes its time.
const leastLate = 3 * time.Minute

// startsLate notes a job whose ticks may be too late when their containers begin.
func startsLate(t target, id deploy.ID, spec *job.Spec, s *schedule.Schedule) []string {
	late := startWithin(spec)
	if s.Period() == 0 || late >= leastLate { // without a period it has one tick
		return nil
	}
	return []string{fmt.Sprintf("%s: a tick may start %s late at most, and %s may need longer to start a container: set starting_deadline_seconds to %d or more",
		id, late, t.name, int(leastLate/time.Second))}
}

func (o *targetOptions) renderFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.render, "render", "", "print the entries as a document of this `FORM`, and ask and write nothing:\nyaml for kubernetes, cloudformation or terraform for eventbridge:FILE")
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
