package eventbridge

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/internal/aws"
)

// Forms are the languages of Template.
var Forms = []string{"cloudformation", "terraform"}

// Template writes the group and the schedules of an app's entries for a tool that creates them: as a template of
// CloudFormation in JSON, or as a configuration of Terraform (a file .tf.json). It calls nothing. The same entries
// give the same bytes. The schedules have dibs's marks, so drift compares what is there. The error names all entries
// that cannot be expressed.
func Template(form, app string, entries []deploy.Entry, o Options) ([]byte, error) {
	if !slices.Contains(Forms, form) {
		return nil, fmt.Errorf("form %q: want %s", form, strings.Join(Forms, " or "))
	}
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	empty := &image{of: &Schedules{app: app, group: groupOf(app), options: o}}
	var edits []deploy.Edit
	var errs []error
	for _, e := range entries {
		text, err := empty.Render(e)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.ID, err))
		}
		edits = append(edits, deploy.Edit{Op: deploy.Put, ID: e.ID, Spec: e.SpecHash(), Text: text})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	full, err := empty.Edit(edits)
	if err != nil {
		return nil, err
	}
	document := cloudFormation
	if form == "terraform" {
		document = terraform
	}
	data, err := aws.Marshal(document(full.(*image)))
	return []byte(indent(data)), err
}

// An object is written in order of its names.
type object map[string]any

// fieldsOf is a value as its JSON is.
func fieldsOf(v any) object {
	data, err := aws.Marshal(v)
	out := object{}
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(err) // it has texts, numbers and lists
	}
	return out
}

// logical is a name of a resource: letters, digits and as many of them as no two items share.
func logical(i item) string {
	var b strings.Builder
	up := true
	for _, c := range i.name {
		if c == '-' || c == '.' {
			up = true
			continue
		}
		if up {
			c = []rune(strings.ToUpper(string(c)))[0]
		}
		b.WriteRune(c)
		up = false
	}
	return b.String() + deploy.TextHash(i.name)[:8]
}

func cloudFormation(m *image) object {
	resources := object{"Group": object{"Type": "AWS::Scheduler::ScheduleGroup",
		"Properties": object{"Name": m.of.group, "Tags": []object{{"Key": tagKey, "Value": m.of.app}}}}}
	for _, i := range m.items {
		p := fieldsOf(i.definition)
		p["Name"], p["Description"], p["GroupName"] = i.name, i.description, object{"Ref": "Group"}
		e, _ := p["Target"].(map[string]any)["EcsParameters"].(map[string]any)
		if n, ok := e["NetworkConfiguration"].(map[string]any); ok { // the one name that is written differently there
			e["NetworkConfiguration"] = object{"AwsvpcConfiguration": n["awsvpcConfiguration"]}
		}
		resources[logical(i)] = object{"Type": "AWS::Scheduler::Schedule", "Properties": p}
	}
	return object{"AWSTemplateFormatVersion": "2010-09-09", "Description": "Jobs of " + m.of.app + ", written by dibs: change the manifest", "Resources": resources}
}

func terraform(m *image) object {
	schedules := object{}
	for _, i := range m.items {
		d, t := i.definition, i.definition.Target
		to := object{"arn": verbatim(t.ARN), "role_arn": verbatim(t.Role), "input": verbatim(t.Input),
			"retry_policy":       object{"maximum_event_age_in_seconds": t.Retry.Seconds, "maximum_retry_attempts": t.Retry.Attempts},
			"dead_letter_config": object{"arn": verbatim(t.DeadLetter.ARN)}}
		if t.ECS != nil {
			to["ecs_parameters"] = terraformTask(t.ECS)
		}
		schedules[logical(i)] = object{
			"name": i.name, "group_name": "${aws_scheduler_schedule_group.dibs.name}", "description": verbatim(i.description),
			"schedule_expression": d.Expression, "schedule_expression_timezone": d.Zone, "state": d.State,
			"flexible_time_window": object{"mode": d.Window.Mode},
			"target":               to,
		}
	}
	resources := object{"aws_scheduler_schedule_group": object{"dibs": object{"name": m.of.group, "tags": object{tagKey: m.of.app}}}}
	if len(schedules) > 0 {
		resources["aws_scheduler_schedule"] = schedules
	}
	return object{"//": "Jobs of " + m.of.app + ", written by dibs: change the manifest", "resource": resources}
}

func terraformTask(t *ecs) object {
	e := object{"task_definition_arn": verbatim(t.TaskDefinition), "launch_type": t.LaunchType, "task_count": t.Count}
	if n := t.Network; n != nil {
		of := object{"subnets": n.VPC.Subnets, "assign_public_ip": n.VPC.PublicIP == "ENABLED"}
		if len(n.VPC.SecurityGroups) > 0 {
			of["security_groups"] = n.VPC.SecurityGroups
		}
		e["network_configuration"] = of
	}
	return e
}

// verbatim keeps Terraform from reading a text as a template.
func verbatim(s string) string { return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(s) }
