package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/scheduler"
	"github.com/dibs-run/dibs/tick"
)

// A Host is what a shared store knows about a host whose jobs are copied to it.
type Host struct {
	ID string
	// Name is the host's own name.
	Name string
	// Since is when the host was registered and Seen when it last reported: its records are before Seen, and after
	// that it has no ticks (rule H1).
	Since, Seen time.Time
	// Jobs are those that its directory accounts for, or recently did.
	Jobs []tick.Job
}

// about is what is registered of a host.
type about struct {
	Host string     `json:"host"`
	Boot string     `json:"boot,omitempty"`
	Jobs []tick.Job `json:"jobs"`
}

// Hosts lists the hosts that have copied to a backend, by name.
func Hosts(ctx context.Context, p *scheduler.Backend) ([]Host, error) {
	if p.Ticks == nil {
		return nil, nil
	}
	rows, err := tick.Registry(ctx, p.Ticks, hostPrefix)
	if err != nil {
		return nil, fmt.Errorf("read the hosts whose jobs are copied here: %w", err)
	}
	hosts := make([]Host, 0, len(rows))
	for _, r := range rows {
		var a about
		if json.Unmarshal([]byte(r.Definition), &a) != nil || !r.Removed.IsZero() {
			continue
		}
		hosts = append(hosts, Host{ID: strings.TrimPrefix(r.Name, hostPrefix), Name: a.Host, Since: r.Since, Seen: r.Mark, Jobs: a.Jobs})
	}
	slices.SortFunc(hosts, func(a, b Host) int { return strings.Compare(a.Name+mark+a.ID, b.Name+mark+b.ID) })
	return hosts, nil
}

// Own removes the rows that represent hosts from a registry.
func Own(known []tick.Job) []tick.Job {
	return slices.DeleteFunc(known, func(j tick.Job) bool { return strings.HasPrefix(j.Name, hostPrefix) })
}

// forgotten is how long the definition of a removed job is still copied.
const forgotten = 90 * 24 * time.Hour

// describe returns what is registered of a host with these jobs. It leaves out what changes with every tick.
func describe(self lease.Holder, jobs []tick.Job, now time.Time) (string, error) {
	a := about{Host: self.Host, Boot: self.BootID, Jobs: []tick.Job{}}
	for _, j := range jobs {
		if j.Removed.IsZero() || now.Sub(j.Removed) < forgotten {
			j.Mark = time.Time{}
			a.Jobs = append(a.Jobs, j)
		}
	}
	b, err := json.Marshal(a)
	return string(b), err
}
