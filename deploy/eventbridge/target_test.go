package eventbridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dibs-run/dibs/deploy"
	"github.com/dibs-run/dibs/deploy/internal/aws"
	"github.com/dibs-run/dibs/internal/test/schedulerapi"
)

func options() Options {
	return Options{Region: "eu-central-1", Cluster: "arn:aws:ecs:eu-central-1:123456789012:cluster/jobs",
		TaskDefinition: "arn:aws:ecs:eu-central-1:123456789012:task-definition/shop", Container: "app",
		Subnets: []string{"subnet-2", "subnet-1"}, SecurityGroups: []string{"sg-1"}, Role: "arn:aws:iam::123456789012:role/fire",
		DeadLetter: "arn:aws:sqs:eu-central-1:123456789012:dead"}
}

// targetOn is the app's target on a server.
func targetOn(t testing.TB, s *schedulerapi.Server, app string) *Schedules {
	t.Helper()
	o := options()
	o.Endpoint, o.Elsewhere = s.URL, true
	to, err := New(app, o)
	if err != nil {
		t.Fatal(err)
	}
	to.client.Keys = func(context.Context) (aws.Keys, error) { return aws.Keys{ID: "AKID", Secret: "SECRET"}, nil }
	to.client.Pause, to.settle = time.Millisecond, time.Millisecond
	return to
}

func entry(app, job string, when ...string) deploy.Entry {
	return deploy.Entry{ID: deploy.ID{App: app, Job: job}, Declared: strings.Join(when, "; "), When: when,
		Command: []string{"/usr/local/bin/dibs", "trigger", app + "/" + job, "--manifest", "/etc/jobs.yaml"}}
}

const (
	daily  = "cron(15 4 * * ? *) Europe/Berlin"
	weekly = "cron(0 0 ? * 1 *) UTC"
)

func install(t testing.TB, to *Schedules, entries ...deploy.Entry) *deploy.Plan {
	t.Helper()
	p, err := deploy.Apply(context.Background(), to, deploy.Install{App: to.app, Entries: entries}, "")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func actions(p *deploy.Plan) (all []string) {
	for _, s := range p.Steps {
		all = append(all, string(s.Action)+" "+s.Entry)
	}
	return all
}

// What is created is a tagged group and whole schedules; a second apply writes nothing; what goes is pruned when
// asked.
func TestTheWayInAndOut(t *testing.T) {
	s := schedulerapi.Start(t)
	to := targetOn(t, s, "shop")
	both := []deploy.Entry{entry("shop", "invoices", daily), entry("shop", "report", daily, weekly)}
	if p, err := deploy.Prepare(context.Background(), to, deploy.Install{App: "shop", Entries: both}); err != nil || !p.Changes() || s.Changes() != 0 {
		t.Fatal(err, s.Changes())
	}
	install(t, to, both...)
	if names := s.Names("dibs-shop"); !slices.Equal(names, []string{"invoices.0.1", "report.0.1", "report.0.2"}) {
		t.Fatal(names)
	}
	var got struct {
		ScheduleExpression, ScheduleExpressionTimezone, State, Description string
		FlexibleTimeWindow                                                 struct{ Mode string }
		Target                                                             struct {
			Arn, RoleArn, Input string
			DeadLetterConfig    struct{ Arn string }
			RetryPolicy         struct{ MaximumEventAgeInSeconds, MaximumRetryAttempts int }
			EcsParameters       struct{ TaskDefinitionArn string }
		}
	}
	if err := json.Unmarshal([]byte(s.Get("dibs-shop", "invoices.0.1")), &got); err != nil {
		t.Fatal(err)
	}
	if got.ScheduleExpression != "cron(15 4 * * ? *)" || got.ScheduleExpressionTimezone != "Europe/Berlin" || got.State != "ENABLED" || got.FlexibleTimeWindow.Mode != "OFF" ||
		got.Target.Arn != options().Cluster || got.Target.RoleArn != options().Role || got.Target.DeadLetterConfig.Arn != options().DeadLetter ||
		got.Target.RetryPolicy.MaximumEventAgeInSeconds != 300 || got.Target.RetryPolicy.MaximumRetryAttempts != 10 {
		t.Errorf("%+v", got)
	}
	const input = `{"containerOverrides":[{"name":"app","command":["/usr/local/bin/dibs","trigger","shop/invoices","--manifest","/etc/jobs.yaml","--tick","<aws.scheduler.scheduled-time>"]}]}`
	if got.Target.Input != input {
		t.Errorf("%s, want\n%s", got.Target.Input, input)
	}
	was, changes := s.All(), s.Changes()
	if p := install(t, to, both...); p.Changes() || !p.Clean() || s.Changes() != changes || s.All() != was {
		t.Errorf("a second apply wrote: %v", actions(p))
	}

	changed := entry("shop", "invoices", daily)
	changed.Command = append(changed.Command, "--environment", "x")
	if p := install(t, to, changed); !slices.Equal(actions(p), []string{"update shop/invoices#0", "stale shop/report#0"}) || s.Changes() != changes+1 {
		t.Error(actions(p), s.Changes()-changes)
	}
	if _, err := deploy.Apply(context.Background(), to, deploy.Prune{App: "shop", Entries: []deploy.Entry{changed}}, ""); err != nil {
		t.Fatal(err)
	}
	if names := s.Names("dibs-shop"); !slices.Equal(names, []string{"invoices.0.1"}) {
		t.Error(names)
	}
	// Ejected it fires on without a mark; adopted it is dibs's again, to the byte.
	is := s.All()
	for _, r := range []deploy.Request{deploy.Eject{App: "shop"}, deploy.Adopt{Entries: []deploy.Entry{changed}}} {
		if _, err := deploy.Apply(context.Background(), to, r, ""); err != nil {
			t.Fatal(err)
		}
		if _, eject := r.(deploy.Eject); eject && (strings.Contains(s.All(), "dibs:entry") || !strings.Contains(s.All(), "cron(15 4")) {
			t.Error(s.All())
		}
	}
	if s.All() != is {
		t.Errorf("ejected and adopted:\n%s, was\n%s", s.All(), is)
	}
}

// A change by hand is drift, and is kept until Overwrite; a schedule that is missing comes back.
func TestDrift(t *testing.T) {
	s := schedulerapi.Start(t)
	to := targetOn(t, s, "shop")
	e := entry("shop", "report", daily, weekly)
	install(t, to, e)
	was := s.All()
	for _, c := range []struct {
		name, old, new string
		want           deploy.Action
	}{
		{"another time", "cron(15 4", "cron(16 4", deploy.Edited},
		{"disabled", `"ENABLED"`, `"DISABLED"`, deploy.Edited},
		{"an end", `"State"`, `"EndDate": 1800000000, "State"`, deploy.Edited},
		{"another role", "role/fire", "role/other", deploy.Edited},
		{"a placement", `"TaskCount"`, `"PlacementConstraints": [{"type":"distinctInstance"}], "TaskCount"`, deploy.Edited},
	} {
		s.Put("dibs-shop", "report.0.1", strings.Replace(s.Get("dibs-shop", "report.0.1"), c.old, c.new, 1))
		edited := s.All()
		if edited == was {
			t.Fatal(c.name)
		}
		if p := install(t, to, e); p.Clean() || p.Steps[0].Action != c.want || s.All() != edited {
			t.Errorf("%s: %v", c.name, actions(p))
		}
		if _, err := deploy.Apply(context.Background(), to, deploy.Install{App: "shop", Entries: []deploy.Entry{e}, Overwrite: true}, ""); err != nil || s.All() != was {
			t.Errorf("%s, overwritten: %v", c.name, err)
		}
	}
	s.Delete("dibs-shop", "report.0.2")
	if p := install(t, to, e); p.Steps[0].Action != deploy.Update || s.All() != was {
		t.Error(actions(p))
	}
}

// A group that is not dibs's is not touched, nor is what others have in dibs's or in other groups.
func TestWhatIsOthersStays(t *testing.T) {
	s := schedulerapi.Start(t)
	to := targetOn(t, s, "shop")
	s.Group("dibs-shop", map[string]string{"Key": "dibs:app", "Value": "shopping"})
	if _, err := deploy.Prepare(context.Background(), to, deploy.Install{App: "shop"}); err == nil || !strings.Contains(err.Error(), "the group dibs-shop is there without the tag dibs:app=shop") {
		t.Fatal(err)
	}
	s.Group("dibs-shop", map[string]string{"Key": "dibs:app", "Value": "shop"}, map[string]string{"Key": "aws:cloudformation:stack-name", "Value": "x"})
	install(t, to, entry("shop", "report", daily))
	copied := s.Get("dibs-shop", "report.0.1")
	s.Delete("dibs-shop", "report.0.1")
	for _, place := range []string{"dibs-shop", "default"} { // somebody's own, under a name that dibs would give
		s.Put(place, "report.0.1", strings.Replace(copied, `"Description"`, `"KmsKeyArn": "arn:aws:kms:x:1:key/1", "Description"`, 1))
		s.Put(place, "copy", copied)
		s.Put(place, "report.0.1", strings.Replace(s.Get(place, "report.0.1"), "dibs:entry", "mine", 1))
	}
	was := s.All()
	if _, err := deploy.Prepare(context.Background(), to, deploy.Install{App: "shop", Entries: []deploy.Entry{entry("shop", "report", daily)}}); err == nil || !strings.Contains(err.Error(), "dibs-shop/report.0.1 is there and is not dibs's") {
		t.Error(err)
	}
	install(t, to, entry("shop", "other", daily))
	p, err := deploy.Apply(context.Background(), to, deploy.Prune{App: "shop"}, "")
	if err != nil || s.All() != was || len(p.Foreign) != 2 {
		t.Errorf("%v, %d foreign\n%s", err, len(p.Foreign), s.All())
	}
}

// After random requests, what others have is the same to the byte, and each request a second time writes nothing.
func TestForeignBytesStay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := schedulerapi.Start(t)
		to := targetOn(t, s, "shop")
		install(t, to)
		s.Group("dibs-shop", map[string]string{"Key": "dibs:app", "Value": "shop"})
		const theirs = `{"ScheduleExpression":"cron(0 1 * * ? *)","FlexibleTimeWindow":{"Mode":"OFF"},"Target":{"Arn":"arn:aws:lambda:x:1:function:f","RoleArn":"arn:aws:iam::1:role/r"}}`
		s.Put("dibs-shop", "theirs", theirs)
		s.Put("default", "a.0.1", theirs)
		was := s.All()
		for range rapid.IntRange(1, 12).Draw(rt, "requests") {
			var entries []deploy.Entry
			for _, job := range []string{"a", "b"} {
				if rapid.Bool().Draw(rt, job) {
					e := entry("shop", job, rapid.SampledFrom([][]string{{daily}, {weekly}, {daily, weekly}}).Draw(rt, "when")...)
					entries = append(entries, e)
				}
			}
			requests := map[string][]deploy.Request{
				"install":   {deploy.Install{App: "shop", Entries: entries, Overwrite: true}},
				"prune":     {deploy.Prune{App: "shop", Entries: entries, Overwrite: true}},
				"and again": {deploy.Install{App: "shop", Entries: entries}, deploy.Prune{App: "shop", Entries: entries}, deploy.Eject{App: "shop"}, deploy.Adopt{Entries: entries}},
			}
			for _, r := range requests[rapid.SampledFrom([]string{"install", "prune", "and again"}).Draw(rt, "request")] {
				if _, err := deploy.Apply(context.Background(), to, r, ""); err != nil {
					rt.Fatal(err)
				}
				changes := s.Changes()
				if _, err := deploy.Apply(context.Background(), to, r, ""); err != nil || s.Changes() != changes {
					rt.Fatalf("%T a second time: %v", r, err)
				}
			}
		}
		if _, err := deploy.Apply(context.Background(), to, deploy.Prune{App: "shop"}, ""); err != nil || s.All() != was {
			rt.Fatalf("%v\n%s, was\n%s", err, s.All(), was)
		}
	})
}

// Whatever call fails and however, an apply ends in an error that says which, or gets through; what was there is
// there, and the next apply makes it whole.
func TestFaults(t *testing.T) {
	faults := map[string]schedulerapi.Fault{"409": {Status: 409, Code: "ConflictException"}, "429": {Status: 429, Code: "ThrottlingException"}, "500": {Status: 500, Code: "InternalServerException"},
		"no right": {Status: 403, Code: "AccessDeniedException"}, "hang": {Hang: true}, "lost": {Status: 500, Code: "InternalServerException", After: true}}
	for _, operation := range []string{"GetScheduleGroup", "ListTagsForResource", "ListSchedules", "GetSchedule", "CreateScheduleGroup", "CreateSchedule", "UpdateSchedule", "DeleteSchedule"} {
		for kind, f := range faults {
			t.Run(operation+" "+kind, func(t *testing.T) {
				t.Parallel()
				s := schedulerapi.Start(t)
				to := targetOn(t, s, "shop")
				patience := to.client.Attempt
				old := []deploy.Entry{entry("shop", "a", daily), entry("shop", "b", daily, weekly)}
				wanted := []deploy.Entry{entry("shop", "b", weekly), entry("shop", "c", daily)}
				if operation != "CreateScheduleGroup" {
					install(t, to, old...)
				}
				was, calls := s.All(), s.Calls(operation)
				if kind == "hang" {
					to.client.Attempt = 150 * time.Millisecond
				}
				for _, passes := range []bool{false, true} {
					s.Fail = func(op string, n int) *schedulerapi.Fault {
						if op != operation || passes && n%3 != 0 {
							return nil
						}
						return &f
					}
					for _, r := range []deploy.Request{deploy.Install{App: "shop", Entries: wanted}, deploy.Prune{App: "shop", Entries: wanted}} {
						_, err := deploy.Apply(context.Background(), to, r, "")
						if err != nil && !strings.Contains(err.Error(), "scheduler:"+operation) && !errors.Is(err, deploy.ErrChanged) {
							t.Errorf("it does not say which call: %v", err)
						}
						if err != nil && kind == "no right" && !strings.Contains(err.Error(), "let these credentials call scheduler:"+operation) {
							t.Error(err)
						}
						if n := s.Calls(operation); !passes && err == nil && n > calls && kind != "lost" {
							t.Errorf("%T succeeded without %s", r, operation)
						}
						calls = s.Calls(operation)
					}
					if reads := strings.HasPrefix(operation, "Get") || strings.HasPrefix(operation, "List"); reads && !passes && s.All() != was {
						t.Error("it wrote without having read")
					}
				}
				s.Fail, to.client.Attempt = nil, patience
				install(t, to, wanted...)
				if _, err := deploy.Apply(context.Background(), to, deploy.Prune{App: "shop", Entries: wanted}, ""); err != nil {
					t.Fatal(err)
				}
				if p := install(t, to, wanted...); !p.Clean() || p.Changes() || !slices.Equal(s.Names("dibs-shop"), []string{"b.0.1", "c.0.1"}) {
					t.Errorf("not whole: %v %v", actions(p), s.Names("dibs-shop"))
				}
			})
		}
	}
}

// Two applies at once: neither loses what others have, and what is left is whole after the next one. One that finds
// another's work says so.
func TestTwoAtOnce(t *testing.T) {
	s := schedulerapi.Start(t)
	a, b := targetOn(t, s, "shop"), targetOn(t, s, "shop")
	one, two := entry("shop", "x", daily), entry("shop", "x", weekly)
	hit := false
	s.Fail = func(op string, _ int) *schedulerapi.Fault {
		if op == "CreateSchedule" && !hit {
			hit = true
			install(t, b, two) // in the middle of a's
		}
		return nil
	}
	_, err := deploy.Apply(context.Background(), a, deploy.Install{App: "shop", Entries: []deploy.Entry{one}}, "")
	if !errors.Is(err, deploy.ErrChanged) {
		t.Fatal(err)
	}
	s.Fail = nil
	if p := install(t, a, one); !p.Changes() || !strings.Contains(s.All(), "cron(15 4") {
		t.Error(actions(p))
	}
}

// A schedule of cronix for the same app, job and index is taken over, wherever it is; the plan says when it fired. It
// is deleted only after dibs's is there.
func TestAdoptCronix(t *testing.T) {
	s := schedulerapi.Start(t)
	to := targetOn(t, s, "shop")
	const theirs = `{"ScheduleExpression":"cron(0 0 ? * 0 *)","ScheduleExpressionTimezone":"UTC","State":"ENABLED","Description":"cronix-managed app=%s job=%s idx=0 hash=1f","FlexibleTimeWindow":{"Mode":"OFF"},
		"Target":{"Arn":"arn:aws:lambda:x:1:function:cronix","RoleArn":"arn:aws:iam::1:role/r","Input":"{}"}}`
	s.Put("default", "cronix-shop-report-0", fmt.Sprintf(theirs, "shop", "report"))
	s.Put("default", "cronix-shop-other-0", fmt.Sprintf(theirs, "shop", "other"))
	s.Put("default", "cronix-shop-x-report-0", fmt.Sprintf(theirs, "shop-x", "report"))
	s.Put("default", "cronix-shop-off-0", strings.Replace(fmt.Sprintf(theirs, "shop", "off"), "ENABLED", "DISABLED", 1))
	p, err := deploy.Apply(context.Background(), to, deploy.Adopt{Entries: []deploy.Entry{entry("shop", "report", weekly), entry("shop", "off", weekly)}}, "")
	if err != nil || !slices.Equal(actions(p), []string{"unmatched shop/off#0", "adopt shop/report#0"}) {
		t.Fatal(err, actions(p))
	}
	if r := p.Steps[1].Reason; r != "default/cronix-shop-report-0, cronix's: it fired at cron(0 0 ? * 0 *) UTC, and now fires at cron(0 0 ? * 1 *) UTC" {
		t.Error(r)
	}
	if !strings.Contains(p.Steps[0].Reason, "is disabled") {
		t.Error(p.Steps[0].Reason)
	}
	if names := s.Names("default"); !slices.Equal(names, []string{"cronix-shop-off-0", "cronix-shop-other-0", "cronix-shop-x-report-0"}) || !slices.Equal(s.Names("dibs-shop"), []string{"report.0.1"}) {
		t.Error(names, s.Names("dibs-shop"))
	}
}

// Names are valid, at most 64 characters, and no two entries share one.
func TestNames(t *testing.T) {
	long := strings.Repeat("a", 62)
	seen := map[string]deploy.ID{}
	for _, job := range []string{"a", "a-1", long + "b", long + "c", long} {
		for _, index := range []int{0, 1, 10, 9999} {
			for _, part := range []int{1, 10, 99} {
				id := deploy.ID{App: "x", Job: job, Index: index}
				name := nameOf(id, part)
				if was, twice := seen[name]; twice || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
					t.Errorf("%s and %s: %q", was, id, name)
				}
				seen[name] = id
			}
		}
	}
	if a, b := groupOf(long+"b"), groupOf(long+"c"); a == b || len(a) > 64 || groupOf("shop") != "dibs-shop" {
		t.Error(a, b)
	}
}

// What ECS or EventBridge would not take is refused with the reason and the cure.
func TestRefusals(t *testing.T) {
	to := &image{of: &Schedules{options: options()}}
	for want, e := range map[string]deploy.Entry{
		"a task runs as its definition says":       {When: []string{daily}, Command: []string{"/dibs"}, User: "www"},
		"shorten it, or put it into a script":      {When: []string{daily}, Command: []string{"/dibs", strings.Repeat("x", 9000)}},
		"which EventBridge replaces: leave it out": {When: []string{daily}, Command: []string{"/dibs", "<aws.scheduler.execution-id>"}},
		"want an expression of EventBridge":        {When: []string{"15 4 * * *"}, Command: []string{"/dibs"}},
		"no absolute path":                         {When: []string{daily}, Command: []string{"dibs"}},
		"make several schedules of it":             {When: slices.Repeat([]string{daily}, 100), Command: []string{"/dibs"}},
	} {
		if _, err := to.Render(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, o := range map[string]func(*Options){
		`cluster "x"`: func(o *Options) { o.Cluster = "x" }, "dead_letter_queue": func(o *Options) { o.DeadLetter = o.Role }, "no subnets": func(o *Options) { o.Subnets = nil },
		"launch_type": func(o *Options) { o.LaunchType = "fargate" }, "retry_for 2s": func(o *Options) { o.RetryFor = 2 * time.Second }, "container": func(o *Options) { o.Container = "" },
		`region "here"`: func(o *Options) { o.Region = "here" },
	} {
		bad := options()
		o(&bad)
		if _, err := New("shop", bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := ParseOptions([]byte("cluster: x\nclutser: y\n")); err == nil || !strings.Contains(err.Error(), "clutser") {
		t.Error(err)
	}
}
