package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/history"
	"github.com/dibs-run/dibs/internal/mirror"
	"github.com/dibs-run/dibs/manifest/source"
	"github.com/dibs-run/dibs/queue/driver"
	"github.com/dibs-run/dibs/serve"
	"github.com/dibs-run/dibs/store"
	"github.com/dibs-run/dibs/tick"
)

// A finder reads names that may complete a word. It may return others too.
type finder func(*look) ([]string, error)

// look is one completion.
type look struct {
	ctx  context.Context
	cmd  *cobra.Command
	args []string // the arguments before the word
	word string

	opened *store.Store
}

// flag is the value of a flag, its default included; "" where the command has no such flag.
func (l *look) flag(name string) string {
	if f := l.cmd.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// store opens the store that the command line names, to be read, without what dibs does beside: it delivers nothing
// that this host keeps, and remembers nothing.
func (l *look) store() (*store.Store, error) {
	if l.opened != nil {
		return l.opened, nil
	}
	a, err := resolve(l.flag("store"))
	if err != nil {
		return nil, err
	}
	l.opened, err = openStore(l.ctx, a.Config)
	return l.opened, err
}

func (l *look) close() {
	if l.opened != nil {
		_ = l.opened.Close()
	}
}

// tasks are the store's; nil where it has none.
func (l *look) tasks() (driver.Admin, error) {
	st, err := l.store()
	if err != nil {
		return nil, err
	}
	return st.Tasks, nil
}

// jobNames are those of the manifest, where one is named, else those that are registered.
func jobNames(l *look) ([]string, error) { return l.jobs(l.word) }

// dottedJobs are the same as APP.JOB, unless the word has a slash.
func dottedJobs(l *look) ([]string, error) {
	if strings.Contains(l.word, "/") {
		return jobNames(l)
	}
	app, _, _ := strings.Cut(l.word, ".")
	all, err := l.jobs(app)
	var dotted []string
	for _, name := range all {
		if d := strings.Replace(name, "/", ".", 1); slices.Contains(names(d), name) {
			dotted = append(dotted, d)
		}
	}
	return dotted, err
}

func (l *look) jobs(prefix string) (all []string, err error) {
	if from := l.flag("manifest"); from != "" {
		return l.declared(from)
	}
	st, err := l.store()
	if err != nil || st.Ticks == nil {
		return nil, err
	}
	known, err := tick.Registry(l.ctx, st.Ticks, prefix)
	for _, j := range mirror.Own(known) {
		if j.Removed.IsZero() {
			all = append(all, j.Name)
		}
	}
	return all, err
}

// declared are the jobs of a manifest on disk. An application is not asked, and standard input not read.
func (l *look) declared(from string) (all []string, err error) {
	if from == "-" || source.IsAddress(from) {
		return nil, nil
	}
	s, err := serve.Manifest{From: from}.Source()
	if err != nil {
		return nil, err
	}
	m, err := s.Load(l.ctx)
	if err != nil {
		return nil, err
	}
	for i := range m.Jobs {
		all = append(all, m.Jobs[i].Key())
	}
	return all, nil
}

// leaseKeys are the keys of leases that are held, or of all; with --internal dibs's own.
func leaseKeys(all bool) finder {
	return func(l *look) (keys []string, err error) {
		st, err := l.store()
		if err != nil || st.Leases == nil {
			return nil, err
		}
		internal, prefix := l.flag("internal") == "true", l.word
		if internal { // the name of a key of our own has a slash that the key has not
			prefix, _, _ = strings.Cut(prefix, "/")
		}
		reply, err := st.Leases.List(l.ctx, prefix, all || l.flag("all") == "true")
		for _, a := range reply.Answers {
			if a.Record.Key.Internal() == internal {
				keys = append(keys, a.Record.Key.String())
			}
		}
		return keys, err
	}
}

// queueNames are those that have tasks, a pause or a worker.
func queueNames(l *look) (names []string, err error) {
	st, err := l.tasks()
	if err != nil || st == nil {
		return nil, err
	}
	subs, err := st.Queues(l.ctx)
	if err != nil {
		return nil, err
	}
	pauses, err := st.Pauses(l.ctx)
	if err != nil {
		return nil, err
	}
	workers, err := st.Workers(l.ctx)
	for _, s := range subs {
		names = append(names, s.Queue)
	}
	for _, p := range pauses {
		names = append(names, p.Queue)
	}
	for _, w := range workers {
		names = append(names, w.Queues...)
	}
	return names, err
}

// kindNames are those that have tasks or a worker.
func kindNames(l *look) (names []string, err error) {
	st, err := l.tasks()
	if err != nil || st == nil {
		return nil, err
	}
	subs, err := st.Queues(l.ctx)
	if err != nil {
		return nil, err
	}
	workers, err := st.Workers(l.ctx)
	for _, s := range subs {
		names = append(names, s.Kind)
	}
	for _, w := range workers {
		names = append(names, w.Kinds...)
	}
	return names, err
}

// limitKeys are those of which an operator has said how many may run.
func limitKeys(l *look) (keys []string, err error) {
	st, err := l.tasks()
	if err != nil || st == nil {
		return nil, err
	}
	words, err := st.Limits(l.ctx)
	for _, w := range words {
		keys = append(keys, w.Key)
	}
	return keys, err
}

// shownTasks are the ids of the first tasks that --queue and --kind select.
func shownTasks(l *look) (ids []string, err error) {
	st, err := l.tasks()
	if err != nil || st == nil {
		return nil, err
	}
	all, err := st.Tasks(l.ctx, driver.Filter{Queue: l.flag("queue"), Kind: l.flag("kind"), Max: mostSuggested})
	for _, t := range all {
		ids = append(ids, strconv.FormatInt(int64(t.ID), 10))
	}
	return ids, err
}

// runIDs are those of the latest runs, of the job that the command line names or of all.
func runIDs(l *look) (ids []string, err error) {
	st, err := l.store()
	if err != nil || st.History == nil {
		return nil, err
	}
	jobs := []string{""}
	if len(l.args) > 0 {
		jobs = names(l.args[0])
	}
	for _, job := range jobs {
		runs, err := st.History.Runs(l.ctx, history.Query{Job: job, Limit: mostSuggested})
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}
