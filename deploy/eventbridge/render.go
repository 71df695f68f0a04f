package eventbridge

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/internal/aws"
	"github.com/dibs-run/dibs/internal/lazy"
)

const (
	// keyword is what EventBridge replaces by the scheduled instant.
	keyword = "<aws.scheduler.scheduled-time>"
	// attribute begins all of its keywords.
	attribute = "<aws.scheduler."
	// mostOverrides is how long the overrides of a task may be in ECS, in characters.
	mostOverrides = 8192
	// mostParts bounds the schedules of one entry.
	mostParts = 99
)

var (
	expression = lazy.Regexp(`^cron\([0-9A-Z*?,/#-]+( [0-9A-Z*?,/#-]+){5}\)$`)
	varName    = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// definitions are an entry's schedules.
func (o Options) definitions(e deploy.Entry) (all []definition, err error) {
	input, err := o.input(e)
	if err != nil {
		return nil, err
	}
	if len(e.When) > mostParts {
		return nil, fmt.Errorf("its schedule needs %d schedules of EventBridge, more than %d: make several schedules of it", len(e.When), mostParts)
	}
	for _, when := range e.When {
		expr, zone, _ := strings.Cut(when, ") ")
		expr += ")"
		if _, err := time.LoadLocation(zone); err != nil || zone == "" || zone == "Local" || !expression().MatchString(expr) || len(expr) > longest {
			return nil, fmt.Errorf("%q: want an expression of EventBridge with its zone, as in cron(15 4 1 * ? *) UTC", when)
		}
		all = append(all, definition{Expression: expr, Zone: zone, Window: window{Mode: "OFF"}, State: "ENABLED", Target: o.target(input, o.retryFor(e))})
	}
	return all, nil
}

// retryFor is for how long EventBridge tries to start a task for an entry.
func (o Options) retryFor(e deploy.Entry) time.Duration {
	switch {
	case o.RetryFor != 0:
		return o.RetryFor
	case e.StartWithin == 0:
		return 5 * time.Minute // as late as a tick may start unless its job says otherwise
	}
	return min(max(e.StartWithin.Truncate(time.Second), leastRetry), mostRetry)
}

func (o Options) target(input string, retryFor time.Duration) target {
	if o.Function != "" {
		return target{ARN: o.Function, Role: o.Role, Input: input, DeadLetter: &deadLetter{o.DeadLetter},
			Retry: &retry{Seconds: int(retryFor / time.Second), Attempts: 10}}
	}
	e := &ecs{TaskDefinition: o.TaskDefinition, LaunchType: o.LaunchType, Count: 1}
	if len(o.Subnets) > 0 {
		ip := "DISABLED"
		if o.PublicIP {
			ip = "ENABLED"
		}
		e.Network = &network{vpc{o.Subnets, o.SecurityGroups, ip}}
	}
	return target{ARN: o.Cluster, Role: o.Role, Input: input, DeadLetter: &deadLetter{o.DeadLetter},
		Retry: &retry{Seconds: int(retryFor / time.Second), Attempts: 10}, ECS: e}
}

// overrides are what a task has instead of its definition's.
type overrides struct {
	Containers []override `json:"containerOverrides"`
}

type override struct {
	Name        string     `json:"name"`
	Command     []string   `json:"command"`
	Environment []variable `json:"environment,omitempty"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// An event is what a function gets: `dibs lambda` reads it.
type event struct {
	Job  string `json:"job"`
	Tick string `json:"tick"`
}

func (o Options) event(e deploy.Entry) (string, error) {
	data, err := aws.Marshal(event{e.App + "." + e.Job, keyword})
	return string(data), err
}

func (o Options) input(e deploy.Entry) (string, error) {
	switch {
	case len(e.Command) == 0 || !path.IsAbs(e.Command[0]):
		return "", errors.New("the command's program has no absolute path")
	case e.User != "":
		return "", fmt.Errorf("user %q: a task runs as its definition says", e.User)
	case e.Zone != "" || e.MailTo != nil:
		return "", errors.New("a schedule of EventBridge states its zone with each of its times, and mails nothing")
	}
	if o.Function != "" {
		return o.event(e)
	}
	c := override{Name: o.Container, Command: append(slices.Clone(e.Command), "--tick", keyword)}
	for _, name := range slices.Sorted(maps.Keys(e.Env)) {
		if !varName().MatchString(name) {
			return "", fmt.Errorf("variable %q: want letters, digits and _", name)
		}
		c.Environment = append(c.Environment, variable{name, e.Env[name]})
	}
	for i, word := range slices.Concat(e.Command, slices.Collect(maps.Values(e.Env))) {
		if strings.Contains(word, attribute) {
			return "", fmt.Errorf("word %d of the command and its variables has %s, which EventBridge replaces: leave it out", i+1, attribute)
		}
	}
	data, err := aws.Marshal(overrides{[]override{c}})
	if err == nil && len(data) > mostOverrides {
		err = fmt.Errorf("its command takes %d characters, and ECS takes %d: shorten it, or put it into a script of the image", len(data), mostOverrides)
	}
	return string(data), err
}
