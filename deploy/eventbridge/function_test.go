package eventbridge

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/internal/test/schedulerapi"
)

const function = "arn:aws:lambda:eu-central-1:123456789012:function:jobs:live"

func functionOptions() Options {
	o := options()
	return Options{Region: o.Region, Function: function, Role: o.Role, DeadLetter: o.DeadLetter}
}

// Instead of a task, a function is invoked, with the job and the tick and nothing else; a second apply writes nothing.
func TestAFunctionIsInvoked(t *testing.T) {
	s := schedulerapi.Start(t)
	to := targetOn(t, s, "shop")
	var err error
	if to.options, err = functionOptions().complete(); err != nil {
		t.Fatal(err)
	}
	e := entry("shop", "invoices", daily)
	install(t, to, e)
	var got struct {
		Target struct {
			Arn, RoleArn, Input string
			DeadLetterConfig    struct{ Arn string }
		}
	}
	if err := json.Unmarshal([]byte(s.Get("dibs-shop", "invoices.0.1")), &got); err != nil {
		t.Fatal(err)
	}
	const input = `{"job":"shop.invoices","tick":"<aws.scheduler.scheduled-time>"}`
	if got.Target.Arn != function || got.Target.Input != input || got.Target.DeadLetterConfig.Arn != options().DeadLetter || strings.Contains(s.All(), "EcsParameters") {
		t.Errorf("%+v\n%s", got, s.All())
	}
	changes := s.Changes()
	if p := install(t, to, e); p.Changes() || !p.Clean() || s.Changes() != changes {
		t.Errorf("a second apply wrote: %v\n%s", actions(p), p.Diff)
	}
	// From a function to a task, in place.
	tasks := targetOn(t, s, "shop")
	if p := install(t, tasks, e); !p.Changes() || !strings.Contains(s.All(), "EcsParameters") {
		t.Errorf("%v", actions(p))
	}
	for _, form := range Forms {
		data, err := Template(form, "shop", []deploy.Entry{e}, functionOptions())
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(strings.ToLower(string(data)), "ecs") || !strings.Contains(string(data), function) || !strings.Contains(string(data), "<aws.scheduler.scheduled-time>") {
			t.Errorf("%s", data)
		}
	}
}

func TestAFunctionsOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`function "f": want the ARN of a function`: func(o *Options) { o.Function = "f" },
		"function goes without cluster":            func(o *Options) { o.Cluster = options().Cluster },
		"without cluster, task_definition":         func(o *Options) { o.Subnets = []string{"subnet-1"} },
		`role ""`:                                  func(o *Options) { o.Role = "" },
		"retry_for 2s":                             func(o *Options) { o.RetryFor = 2 * time.Second },
	} {
		o := functionOptions()
		change(&o)
		if _, err := o.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
