package eventbridge

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/internal/test/schedulerapi"
)

// The names that CloudFormation's reference has, by type and path; of Terraform's, those of aws_scheduler_schedule.
var (
	cloudFormationHas = map[string][]string{
		"AWS::Scheduler::ScheduleGroup": {"Name", "Tags"},
		"AWS::Scheduler::Schedule": {"Description", "EndDate", "FlexibleTimeWindow", "GroupName", "KmsKeyArn", "Name", "ScheduleExpression",
			"ScheduleExpressionTimezone", "StartDate", "State", "Target"},
		"FlexibleTimeWindow": {"MaximumWindowInMinutes", "Mode"},
		"Target":             schedulerapi.Members["Target"],
		"DeadLetterConfig":   {"Arn"},
		"RetryPolicy":        {"MaximumEventAgeInSeconds", "MaximumRetryAttempts"},
		"EcsParameters": {"CapacityProviderStrategy", "EnableECSManagedTags", "EnableExecuteCommand", "Group", "LaunchType", "NetworkConfiguration",
			"PlacementConstraints", "PlacementStrategy", "PlatformVersion", "PropagateTags", "ReferenceId", "Tags", "TaskCount", "TaskDefinitionArn"},
		"NetworkConfiguration": {"AwsvpcConfiguration"},
		"AwsvpcConfiguration":  {"AssignPublicIp", "SecurityGroups", "Subnets"},
		"GroupName":            {"Ref"},
	}
	terraformHas = map[string][]string{
		"aws_scheduler_schedule_group": {"name", "name_prefix", "tags"},
		"aws_scheduler_schedule": {"description", "end_date", "flexible_time_window", "group_name", "kms_key_arn", "name", "name_prefix", "schedule_expression",
			"schedule_expression_timezone", "start_date", "state", "target"},
		"flexible_time_window": {"maximum_window_in_minutes", "mode"},
		"target": {"arn", "dead_letter_config", "ecs_parameters", "eventbridge_parameters", "input", "kinesis_parameters", "retry_policy", "role_arn",
			"sagemaker_pipeline_parameters", "sqs_parameters"},
		"dead_letter_config": {"arn"},
		"retry_policy":       {"maximum_event_age_in_seconds", "maximum_retry_attempts"},
		"ecs_parameters": {"capacity_provider_strategy", "enable_ecs_managed_tags", "enable_execute_command", "group", "launch_type", "network_configuration",
			"placement_constraints", "placement_strategy", "platform_version", "propagate_tags", "reference_id", "tags", "task_count", "task_definition_arn"},
		"network_configuration": {"assign_public_ip", "security_groups", "subnets"},
		"tags":                  {"dibs:app"},
	}
)

// only fails if an object has a name that its reference does not have.
func only(t *testing.T, has map[string][]string, kind string, v map[string]any) {
	t.Helper()
	for name, value := range v {
		if !slices.Contains(has[kind], name) {
			t.Errorf("%s has no %s", kind, name)
		}
		if inner, ok := value.(map[string]any); ok {
			only(t, has, name, inner)
		}
	}
}

func template(t *testing.T, form string, entries ...deploy.Entry) (data []byte, v map[string]any) {
	t.Helper()
	data, err := Template(form, "shop", entries, options())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return data, v
}

// Both forms have what the references have, the same bytes each time, and the schedules that apply would write.
func TestTemplates(t *testing.T) {
	tricky := entry("shop", "b-2", daily, weekly)
	tricky.Command = append(tricky.Command, "${a}%{b}<&>", "$$")
	entries := []deploy.Entry{entry("shop", "a", daily), tricky}
	backwards := slices.Clone(entries)
	slices.Reverse(backwards)

	s := schedulerapi.Start(t)
	to := targetOn(t, s, "shop")
	install(t, to, entries...)
	written := func(name, field string) (text string) {
		var v map[string]any
		if err := json.Unmarshal([]byte(s.Get("dibs-shop", name)), &v); err != nil {
			t.Fatal(name, err)
		}
		if text, _ = v[field].(string); field == "Input" {
			text = v["Target"].(map[string]any)["Input"].(string)
		}
		return text
	}

	for _, form := range Forms {
		data, _ := template(t, form, entries...)
		if again, _ := template(t, form, backwards...); !bytes.Equal(data, again) {
			t.Errorf("%s: not the same bytes", form)
		}
		if !bytes.Contains(data, []byte("<aws.scheduler.scheduled-time>")) {
			t.Errorf("%s: EventBridge would not find its keyword", form)
		}
	}

	_, cf := template(t, "cloudformation", entries...)
	resources := cf["Resources"].(map[string]any)
	if len(resources) != 4 || cf["AWSTemplateFormatVersion"] != "2010-09-09" {
		t.Errorf("%d resources", len(resources))
	}
	for id, r := range resources {
		r := r.(map[string]any)
		p := r["Properties"].(map[string]any)
		only(t, cloudFormationHas, r["Type"].(string), p)
		if strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			t.Errorf("the logical ID %q", id)
		}
		if name := p["Name"].(string); r["Type"] == "AWS::Scheduler::Schedule" {
			if p["Description"] != written(name, "Description") || p["ScheduleExpression"] != written(name, "ScheduleExpression") ||
				p["Target"].(map[string]any)["Input"] != written(name, "Input") {
				t.Errorf("%s is not what apply writes", name)
			}
		}
	}

	_, tf := template(t, "terraform", entries...)
	all := tf["resource"].(map[string]any)
	for kind, of := range all {
		for _, r := range of.(map[string]any) {
			only(t, terraformHas, kind, r.(map[string]any))
		}
	}
	unescape := strings.NewReplacer("$${", "${", "%%{", "%{").Replace
	for _, r := range all["aws_scheduler_schedule"].(map[string]any) {
		r := r.(map[string]any)
		name, input := r["name"].(string), r["target"].(map[string]any)["input"].(string)
		if unescape(input) != written(name, "Input") || strings.Contains(strings.ReplaceAll(input, "$${", ""), "${") || r["description"] != written(name, "Description") {
			t.Errorf("%s is not what apply writes: %s", name, input)
		}
	}
}

// A template has all entries or none; the error names each that cannot be expressed.
func TestTemplatesRefuse(t *testing.T) {
	bad := entry("shop", "bad", daily)
	bad.User = "www"
	worse := entry("shop", "worse", "0 0 * * *")
	data, err := Template("terraform", "shop", []deploy.Entry{entry("shop", "a", daily), bad, worse}, options())
	if data != nil || err == nil || !strings.Contains(err.Error(), `shop/bad#0: user "www"`) || !strings.Contains(err.Error(), "shop/worse#0: ") {
		t.Errorf("%s, %v", data, err)
	}
	if _, err := Template("yaml", "shop", nil, options()); err == nil {
		t.Error("there is no such form")
	}
}
