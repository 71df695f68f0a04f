package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-run/dibs/fleet"
)

func newServer(e env) *cobra.Command {
	return group(&cobra.Command{Use: "server", Short: "Servers and workers: list"}, newServerList(e))
}

const serverListHelp = `List the processes that serve jobs (dibs serve, a Go program) or work queues (dibs work): those that are up, and those
that died or were cut off within the last day ("gone since" they were heard of last). With --all, also those that ended
properly, and those that another process of the same host has replaced.

Each process reports itself to the store once a minute, and when it starts, drains and ends.`

// serverListOptions are the flags of `dibs server list`.
type serverListOptions struct {
	store string
	all   bool
	out   format
}

func newServerList(e env) *cobra.Command {
	o := serverListOptions{}
	cmd := &cobra.Command{Use: "list", Short: "List the processes that serve jobs or work queues", Long: serverListHelp,
		Example: "  dibs server list\n  dibs server list --all -o json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runServerList(cmd.Context(), e, o)
		}}
	storeFlag(cmd, &o.store)
	formatFlag(cmd, &o.out)
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "also those that ended, or whose place another one has taken")
	return cmd
}

// memberView is a process as it is shown; its form is stable.
type memberView struct {
	ID         string   `json:"id"`
	State      string   `json:"state"` // up, draining, silent, gone, ended
	Host       string   `json:"host"`
	PID        int      `json:"pid"`
	Version    string   `json:"version,omitempty"`
	App        string   `json:"app,omitempty"`
	Jobs       int      `json:"jobs,omitempty"`
	Queues     []string `json:"queues,omitempty"`
	MoreQueues int      `json:"more_queues,omitempty"`
	Slots      int      `json:"slots,omitempty"`
	// Offset is how far its host's clock is ahead of the store's; nil: unknown.
	Offset *float64  `json:"clock_offset_seconds,omitempty"`
	Since  time.Time `json:"since"`
	Heard  time.Time `json:"heard"`
}

func viewMember(m fleet.Member) memberView {
	v := memberView{ID: m.ID.String(), State: string(m.State), Host: m.Host, PID: m.PID, Version: m.Version, App: m.App, Jobs: m.Jobs,
		Queues: m.Queues, MoreQueues: m.MoreQueues, Slots: m.Slots, Since: m.Since, Heard: m.Heard}
	if m.ClockOffset != nil {
		offset := m.ClockOffset.Seconds()
		v.Offset = &offset
	}
	return v
}

// census asks a store which processes there are.
func census(ctx context.Context, p *opened) (fleet.Census, error) {
	if p.store.Fleet == nil {
		return fleet.Census{}, fmt.Errorf("store %s does not record its servers: %w", p.config, errors.ErrUnsupported)
	}
	c, err := fleet.Read(ctx, p.store.Fleet, p.store.Leases)
	if err != nil {
		return c, fmt.Errorf("read which servers and workers there are: %w", err)
	}
	return c, nil
}

// censusOrSay is census for an answer that can do without.
func (p *opened) censusOrSay(ctx context.Context, e env) fleet.Census {
	c, err := census(ctx, p)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		fmt.Fprintf(e.stderr, "dibs: %v\n", err)
	}
	return c
}

func runServerList(ctx context.Context, e env, o serverListOptions) error {
	if err := o.out.check(); err != nil {
		return err
	}
	p, err := openFor(ctx, e, o.store)
	if err != nil {
		return err
	}
	defer p.close()
	c, err := census(ctx, p)
	if err != nil {
		return err
	}
	members := c.Members
	if !o.all {
		members = c.Current()
	}
	slices.SortStableFunc(members, func(a, b fleet.Member) int { return strings.Compare(a.Host, b.Host) })
	if len(c.Members) == fleet.Most {
		fmt.Fprintf(e.stderr, "dibs: only the %d processes that reported last are listed\n", fleet.Most)
	}
	if o.out == "json" {
		views := []memberView{}
		for _, m := range members {
			views = append(views, viewMember(m))
		}
		return writeJSON(e.stdout, views)
	}
	rows := make([][]string, len(members))
	for i, m := range members {
		rows[i] = []string{m.Host, fmt.Sprint(m.PID), memberState(m), duty(m.Process), clockWords(m.ClockOffset), orDash(m.Version), stampOf(m.Since)}
	}
	return e.table("HOST PID STATE DOES CLOCK VERSION SINCE", rows, "VERSION", "SINCE")
}

func memberState(m fleet.Member) string {
	switch m.State {
	case fleet.Gone, fleet.Silent:
		return string(m.State) + " since " + stampOf(m.Heard)
	case fleet.Ended:
		return "ended at " + stampOf(m.Heard)
	}
	return string(m.State)
}

// duty says what a process is there for.
func duty(p fleet.Process) string {
	if p.App != "" {
		return fmt.Sprintf("serves %s, %s", p.App, plural(p.Jobs, "job"))
	}
	queues := strings.Join(p.Queues, ",")
	if p.MoreQueues > 0 {
		queues += fmt.Sprintf(" and %d more", p.MoreQueues)
	}
	return fmt.Sprintf("works %s, %s", queues, plural(p.Slots, "slot"))
}

func clockWords(offset *time.Duration) string {
	switch {
	case offset == nil:
		return "-"
	case offset.Abs() <= fleet.ClockBound:
		return "ok"
	case *offset < 0:
		return (-*offset).Round(100*time.Millisecond).String() + " behind"
	}
	return offset.Round(100*time.Millisecond).String() + " ahead"
}

// unserved says since when no server serves an app that one served within the last day; "": one does, or none did. The
// instant is zero while one drains.
func unserved(app string, s fleet.Service) (text string, since time.Time) {
	switch {
	case len(s.Up) > 0 || s.Last == nil:
		return "", time.Time{}
	case s.Last.State == fleet.Draining:
		return fmt.Sprintf("no server that serves %s takes new work (%s:%d is draining)", app, s.Last.Host, s.Last.PID), time.Time{}
	}
	how := map[fleet.State]string{fleet.Ended: ", and ended", fleet.Silent: ", and is silent"}[s.Last.State]
	return fmt.Sprintf("no server that serves %s has been up since %s (%s:%d was the last%s)", app, stampOf(s.Last.Heard), s.Last.Host, s.Last.PID, how), s.Last.Heard
}

// servicesOf returns a function that says who serves an app: there may be very many jobs, and few apps.
func servicesOf(c fleet.Census) func(app string) fleet.Service {
	known := map[string]fleet.Service{}
	return func(app string) fleet.Service {
		s, ok := known[app]
		if !ok {
			s = c.Serving(app)
			known[app] = s
		}
		return s
	}
}

// hostsOf names some hosts of members.
func hostsOf(all []fleet.Member) string {
	var names []string
	for _, m := range all {
		if !slices.Contains(names, m.Host) {
			names = append(names, m.Host)
		}
	}
	slices.Sort(names)
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	return strings.Join(names, ", ")
}
