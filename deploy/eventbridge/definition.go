package eventbridge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/internal/aws"
)

// A definition is a schedule of EventBridge, in the words of its API, without its name and its description. What dibs
// does not write itself is there as well, so that a change by hand is seen.
type definition struct {
	Expression string          `json:"ScheduleExpression"`
	Zone       string          `json:"ScheduleExpressionTimezone,omitempty"`
	Window     window          `json:"FlexibleTimeWindow"`
	State      string          `json:"State,omitempty"`
	After      string          `json:"ActionAfterCompletion,omitempty"`
	Key        string          `json:"KmsKeyArn,omitempty"`
	Start      json.RawMessage `json:"StartDate,omitempty"`
	End        json.RawMessage `json:"EndDate,omitempty"`
	Target     target          `json:"Target"`
}

type window struct {
	Mode    string `json:"Mode"`
	Minutes int    `json:"MaximumWindowInMinutes,omitempty"`
}

type target struct {
	ARN        string          `json:"Arn"`
	Role       string          `json:"RoleArn"`
	Input      string          `json:"Input,omitempty"`
	DeadLetter *deadLetter     `json:"DeadLetterConfig,omitempty"`
	Retry      *retry          `json:"RetryPolicy,omitempty"`
	ECS        *ecs            `json:"EcsParameters,omitempty"`
	Bus        json.RawMessage `json:"EventBridgeParameters,omitempty"`
	Kinesis    json.RawMessage `json:"KinesisParameters,omitempty"`
	SageMaker  json.RawMessage `json:"SageMakerPipelineParameters,omitempty"`
	SQS        json.RawMessage `json:"SqsParameters,omitempty"`
}

type deadLetter struct {
	ARN string `json:"Arn,omitempty"`
}

type retry struct {
	Seconds  int `json:"MaximumEventAgeInSeconds"`
	Attempts int `json:"MaximumRetryAttempts"`
}

type ecs struct {
	TaskDefinition string          `json:"TaskDefinitionArn"`
	LaunchType     string          `json:"LaunchType,omitempty"`
	Count          int             `json:"TaskCount,omitempty"`
	Network        *network        `json:"NetworkConfiguration,omitempty"`
	Platform       string          `json:"PlatformVersion,omitempty"`
	Group          string          `json:"Group,omitempty"`
	Reference      string          `json:"ReferenceId,omitempty"`
	PropagateTags  string          `json:"PropagateTags,omitempty"`
	ManagedTags    bool            `json:"EnableECSManagedTags,omitempty"`
	ExecuteCommand bool            `json:"EnableExecuteCommand,omitempty"`
	Providers      json.RawMessage `json:"CapacityProviderStrategy,omitempty"`
	Constraints    json.RawMessage `json:"PlacementConstraints,omitempty"`
	Placement      json.RawMessage `json:"PlacementStrategy,omitempty"`
	Tags           json.RawMessage `json:"Tags,omitempty"`
}

type network struct {
	VPC vpc `json:"awsvpcConfiguration"`
}

type vpc struct {
	Subnets        []string `json:"Subnets"`
	SecurityGroups []string `json:"SecurityGroups,omitempty"`
	PublicIP       string   `json:"AssignPublicIp,omitempty"`
}

// normal drops what says no more than the default, which the API may answer though nobody said it.
func (s definition) normal() definition {
	s.Zone, s.State = cmp.Or(s.Zone, "UTC"), cmp.Or(s.State, "ENABLED")
	if s.After == "NONE" {
		s.After = ""
	}
	if s.Target.DeadLetter != nil && s.Target.DeadLetter.ARN == "" {
		s.Target.DeadLetter = nil
	}
	raw := []*json.RawMessage{&s.Start, &s.End, &s.Target.Bus, &s.Target.Kinesis, &s.Target.SageMaker, &s.Target.SQS}
	if s.Target.ECS != nil {
		e := *s.Target.ECS
		e.Count = max(e.Count, 1)
		if e.Platform == "LATEST" {
			e.Platform = ""
		}
		if e.Network != nil {
			n := *e.Network
			slices.Sort(n.VPC.Subnets)
			slices.Sort(n.VPC.SecurityGroups)
			n.VPC.PublicIP = cmp.Or(n.VPC.PublicIP, "DISABLED")
			e.Network = &n
		}
		raw = append(raw, &e.Providers, &e.Constraints, &e.Placement, &e.Tags)
		s.Target.ECS = &e
	}
	for _, r := range raw {
		if text := string(bytes.TrimSpace(*r)); text == "null" || text == "[]" || text == "{}" {
			*r = nil
		}
	}
	return s
}

// A mark is what a description says of an entry's schedule.
type mark struct {
	id         deploy.ID
	part, of   int
	spec, text string
}

const (
	markBegin = "dibs:entry "
	notice    = " (written by dibs: change the manifest)"
)

func (m mark) String() string {
	return fmt.Sprintf("%s%s part=%d/%d spec=%s text=%s%s", markBegin, m.id, m.part, m.of, m.spec, m.text, notice)
}

func readMark(description string) (m mark, ok bool) {
	rest, ok := strings.CutPrefix(description, markBegin)
	rest, _, _ = strings.Cut(rest, "(")
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return m, false
	}
	id, err := deploy.ParseID(fields[0])
	for _, f := range fields[1:] {
		switch key, value, _ := strings.Cut(f, "="); key { // others are of later versions
		case "part":
			_, _ = fmt.Sscanf(value, "%d/%d", &m.part, &m.of)
		case "spec":
			m.spec = value
		case "text":
			m.text = value
		}
	}
	m.id = id
	return m, err == nil && m.part > 0
}

// longestName is how long a name may be.
const longestName = 64

// short is a name that has no more than n characters; a longer one is cut, with a hash of all of it at its end.
func short(name string, n int) string {
	if len(name) <= n {
		return name
	}
	return name[:n-13] + "." + deploy.TextHash(name)[:12]
}

func groupOf(app string) string { return short("dibs-"+app, longestName) }

// nameOf is the name of an entry's schedule in its app's group. Parts are counted from 1.
func nameOf(id deploy.ID, part int) string {
	end := fmt.Sprintf(".%d.%d", id.Index, part)
	return short(id.Job, longestName-len(end)) + end
}

// write is the text of an entry: all of its schedules.
func write(all []definition) (string, error) {
	data, err := aws.Marshal(all)
	if err != nil {
		return "", err
	}
	return indent(data), nil
}

func indent(data []byte) string {
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		panic(err) // it was written by Marshal
	}
	return b.String() + "\n"
}
