package schedulerapi

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Members are those of a schedule and of what it contains, by the path of names, as the API's reference has them.
var Members = map[string][]string{
	"": {"ActionAfterCompletion", "ClientToken", "Description", "EndDate", "FlexibleTimeWindow", "GroupName", "KmsKeyArn",
		"ScheduleExpression", "ScheduleExpressionTimezone", "StartDate", "State", "Target"},
	"FlexibleTimeWindow":      {"MaximumWindowInMinutes", "Mode"},
	"Target":                  {"Arn", "DeadLetterConfig", "EcsParameters", "EventBridgeParameters", "Input", "KinesisParameters", "RetryPolicy", "RoleArn", "SageMakerPipelineParameters", "SqsParameters"},
	"Target.DeadLetterConfig": {"Arn"},
	"Target.RetryPolicy":      {"MaximumEventAgeInSeconds", "MaximumRetryAttempts"},
	"Target.EcsParameters": {"CapacityProviderStrategy", "EnableECSManagedTags", "EnableExecuteCommand", "Group", "LaunchType", "NetworkConfiguration",
		"PlacementConstraints", "PlacementStrategy", "PlatformVersion", "PropagateTags", "ReferenceId", "Tags", "TaskCount", "TaskDefinitionArn"},
	"Target.EcsParameters.NetworkConfiguration":                     {"awsvpcConfiguration"},
	"Target.EcsParameters.NetworkConfiguration.awsvpcConfiguration": {"AssignPublicIp", "SecurityGroups", "Subnets"},
}

// unknown finds a name that the reference does not have, by its path.
func unknown(v map[string]any, path string) string {
	for name, value := range v {
		if !slices.Contains(Members[path], name) {
			return path + "." + name
		}
		if inner, ok := value.(map[string]any); ok {
			if bad := unknown(inner, strings.TrimPrefix(path+"."+name, ".")); bad != "" {
				return bad
			}
		}
	}
	return ""
}

func (s *Server) schedule(operation, name string, r *http.Request) (any, *refused) {
	var in map[string]any
	groupName := r.URL.Query().Get("groupName")
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		data, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, &refused{400, "SerializationException", err.Error()}
		}
		if no := Check(in); no != "" {
			return nil, invalid("%s", no)
		}
		groupName, _ = in["GroupName"].(string)
	}
	if groupName == "" {
		groupName = "default"
	}
	g := s.groups[groupName]
	if g == nil {
		return nil, notFound("Schedule group " + groupName)
	}
	there := g.schedules[name] != nil
	token, _ := in["ClientToken"].(string)
	if operation != "CreateSchedule" && !there {
		return nil, notFound("Schedule " + name)
	}
	switch operation {
	case "GetSchedule":
		return answered(g.schedules[name], groupName, name), nil
	case "DeleteSchedule":
		s.changed++
		delete(g.schedules, name)
		return map[string]any{}, nil
	case "CreateSchedule":
		if there && s.tokens[token] == groupName+"/"+name {
			return map[string]any{"ScheduleArn": "arn"}, nil
		} else if there {
			return nil, &refused{409, "ConflictException", "Schedule " + name + " already exists."}
		}
	}
	s.changed++
	s.tokens[token] = groupName + "/" + name
	delete(in, "ClientToken")
	delete(in, "GroupName")
	g.schedules[name] = in
	return map[string]any{"ScheduleArn": "arn"}, nil
}

// answered is a schedule as GetSchedule answers it: with what nobody said.
func answered(stored map[string]any, group, name string) map[string]any {
	data, _ := json.Marshal(stored)
	var v map[string]any
	_ = json.Unmarshal(data, &v)
	defaults := func(v map[string]any, more map[string]any) {
		for name, value := range more {
			if _, said := v[name]; !said {
				v[name] = value
			}
		}
	}
	defaults(v, map[string]any{"ActionAfterCompletion": "NONE", "Arn": "arn:aws:scheduler:eu-central-1:123456789012:schedule/" + group + "/" + name,
		"CreationDate": 1.7e9, "LastModificationDate": 1.7e9, "GroupName": group, "Name": name, "State": "ENABLED", "ScheduleExpressionTimezone": "UTC"})
	if target, ok := v["Target"].(map[string]any); ok {
		defaults(target, map[string]any{"RetryPolicy": map[string]any{"MaximumEventAgeInSeconds": 86400, "MaximumRetryAttempts": 185}})
		if ecs, ok := target["EcsParameters"].(map[string]any); ok {
			defaults(ecs, map[string]any{"CapacityProviderStrategy": []any{}, "PlacementConstraints": []any{}, "PlacementStrategy": []any{}, "Tags": []any{},
				"EnableECSManagedTags": false, "EnableExecuteCommand": false, "TaskCount": 1, "PlatformVersion": "LATEST"})
		}
	}
	return v
}

var (
	expression = regexp.MustCompile(`^cron\(\S+ \S+ \S+ \S+ \S+ \S+\)$`)
	arn        = regexp.MustCompile(`^arn:aws[a-z-]*:\S+$`)
)

// Check says what the reference does not allow in a schedule, or nothing.
func Check(in map[string]any) string {
	if bad := unknown(in, ""); bad != "" {
		return "there is no " + bad
	}
	text := func(v map[string]any, name string) string { s, _ := v[name].(string); return s }
	of := func(v map[string]any, name string) map[string]any { m, _ := v[name].(map[string]any); return m }
	target := of(in, "Target")
	ecs, retry := of(target, "EcsParameters"), of(target, "RetryPolicy")
	seconds, _ := retry["MaximumEventAgeInSeconds"].(float64)
	fields := strings.Fields(strings.TrimSuffix(strings.TrimPrefix(text(in, "ScheduleExpression"), "cron("), ")"))
	_, zone := time.LoadLocation(text(in, "ScheduleExpressionTimezone"))
	switch {
	case len(text(in, "ScheduleExpression")) > 256 || !expression.MatchString(text(in, "ScheduleExpression")):
		return "Invalid Schedule Expression " + text(in, "ScheduleExpression")
	case (fields[2] == "?") == (fields[4] == "?"):
		return "Invalid Schedule Expression: exactly one of the day fields is ?"
	case zone != nil || len(text(in, "ScheduleExpressionTimezone")) > 50:
		return "Invalid ScheduleExpressionTimezone " + text(in, "ScheduleExpressionTimezone")
	case text(of(in, "FlexibleTimeWindow"), "Mode") != "OFF":
		return "FlexibleTimeWindow"
	case len(text(in, "Description")) > 512:
		return "Description"
	case !arn.MatchString(text(target, "Arn")) || !arn.MatchString(text(target, "RoleArn")):
		return "Target"
	case retry != nil && (seconds < 60 || seconds > 86400):
		return "RetryPolicy"
	case ecs != nil && !arn.MatchString(text(ecs, "TaskDefinitionArn")):
		return "EcsParameters"
	case !json.Valid([]byte(text(target, "Input"))):
		return "Target.Input must be a valid JSON"
	}
	return ""
}
