package eventbridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/dibs-run/dibs/internal/lazy"
)

// Options say where tasks are started, or which function is invoked, and under which role.
type Options struct {
	// Region is that of the schedules, such as eu-central-1. Rendering needs none. Default: AWS_REGION, or the
	// profile's.
	Region string `yaml:"region"`
	// Cluster and TaskDefinition are ARNs of ECS. A task definition without a revision is the latest at each fire.
	Cluster        string `yaml:"cluster"`
	TaskDefinition string `yaml:"task_definition"`
	// Function is the ARN of a Lambda function that runs `dibs lambda`, instead of a cluster and a task definition.
	Function string `yaml:"function"`
	// Container is the container whose command is replaced.
	Container string `yaml:"container"`
	// LaunchType is FARGATE (the default), EC2 or EXTERNAL.
	LaunchType string `yaml:"launch_type"`
	// Subnets, SecurityGroups and PublicIP are of tasks in the network mode awsvpc, as FARGATE's are.
	Subnets        []string `yaml:"subnets"`
	SecurityGroups []string `yaml:"security_groups"`
	PublicIP       bool     `yaml:"assign_public_ip"`
	// Role is the ARN of the role by which EventBridge may start the tasks.
	Role string `yaml:"role"`
	// DeadLetter is the ARN of the SQS queue that gets a fire for which no task could be started.
	DeadLetter string `yaml:"dead_letter_queue"`
	// RetryFor is how long EventBridge tries to start a task, from a minute to a day. Default: as long as a tick of
	// the job may still start, within these bounds.
	RetryFor time.Duration `yaml:"retry_for"`
	// Endpoint is for tests: another address than AWS's.
	Endpoint string `yaml:"endpoint"`
	// Elsewhere looks for cronix's schedules of the app in all groups, to adopt them.
	Elsewhere bool `yaml:"-"`
}

// ParseOptions reads options from YAML or JSON. An unknown name is an error.
func ParseOptions(data []byte) (o Options, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&o); err != nil && !errors.Is(err, io.EOF) {
		return o, err
	}
	return o, nil
}

// What EventBridge takes as the greatest age of an event.
const (
	leastRetry = time.Minute
	mostRetry  = 24 * time.Hour
)

var (
	arn    = lazy.Regexp(`^arn:[a-z-]+:([a-z0-9-]+):[a-z0-9-]*:\d*:\S{1,1000}$`)
	region = lazy.Regexp(`^[a-z]{2}(-[a-z]+)+-\d$`)
)

// needed is an ARN that must be there.
type needed struct{ name, value, service, what string }

// complete fills in what is not said, and refuses what EventBridge would not take, all of it at once.
func (o Options) complete() (Options, error) {
	var errs []error
	arns := []needed{
		{"role", o.Role, "iam", "the ARN of the role by which EventBridge starts tasks, or invokes the function"},
		{"dead_letter_queue", o.DeadLetter, "sqs", "the ARN of an SQS queue for fires that start nothing"},
	}
	if o.Function != "" {
		arns = append(arns, needed{"function", o.Function, "lambda", "the ARN of a function"})
	} else {
		arns = append(arns, needed{"cluster", o.Cluster, "ecs", "the cluster's ARN"}, needed{"task_definition", o.TaskDefinition, "ecs", "the task definition's ARN"})
	}
	for _, a := range arns {
		if m := arn().FindStringSubmatch(a.value); m == nil || m[1] != a.service {
			errs = append(errs, fmt.Errorf("%s %q: want %s", a.name, a.value, a.what))
		}
	}
	check := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.RetryFor != 0 && (o.RetryFor < leastRetry || o.RetryFor > mostRetry || o.RetryFor%time.Second != 0), "retry_for %s: want from 1m to 24h", o.RetryFor)
	if o.Function != "" {
		check(o.Cluster+o.TaskDefinition+o.Container+o.LaunchType != "" || len(o.Subnets)+len(o.SecurityGroups) > 0 || o.PublicIP,
			"function goes without cluster, task_definition, container, launch_type and the network: these are of tasks of ECS")
		return o, errors.Join(errs...)
	}
	if o.LaunchType == "" {
		o.LaunchType = "FARGATE"
	}
	o.Subnets, o.SecurityGroups = slices.Sorted(slices.Values(o.Subnets)), slices.Sorted(slices.Values(o.SecurityGroups))
	check(o.Container == "" || strings.ContainsAny(o.Container, "<> \t\n"), "container %q: want the name of the container that runs dibs", o.Container)
	check(!slices.Contains([]string{"FARGATE", "EC2", "EXTERNAL"}, o.LaunchType), "launch_type %q: want FARGATE, EC2 or EXTERNAL", o.LaunchType)
	check(o.LaunchType == "FARGATE" && len(o.Subnets) == 0, "no subnets: tasks of FARGATE need one at least")
	check(len(o.Subnets) > 16 || len(o.SecurityGroups) > 5, "want at most 16 subnets and 5 security_groups")
	check(len(o.Subnets) == 0 && (len(o.SecurityGroups) > 0 || o.PublicIP), "security_groups and assign_public_ip go with subnets")
	check(o.PublicIP && o.LaunchType != "FARGATE", "assign_public_ip goes with launch_type FARGATE")
	return o, errors.Join(errs...)
}
