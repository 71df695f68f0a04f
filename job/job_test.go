package job

import (
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
)

func example() *Spec {
	return &Spec{
		App: "billing", Name: "invoices", Timezone: "Europe/Berlin",
		Schedules: []string{"15 4 1 * *", "@hourly", "15 4 1 * *"},
		Command:   &Command{Args: []string{"php", "generateInvoices.php"}},
		Policy:    DefaultPolicy(true),
	}
}

func TestDefinition(t *testing.T) {
	s := example()
	if s.Key() != "billing/invoices" {
		t.Errorf("key %q", s.Key())
	}
	const want = `{"schedules":["15 4 1 * *","@hourly"],"timezone":"Europe/Berlin","policy":{"concurrency":"Forbid",` +
		`"scope":"host","timeout":"0s","deadline":"0s","max_attempts":1,"retry_min":"1s","retry_max":"1m0s",` +
		`"catch_up":"skip","catch_up_window":"24h0m0s","on_crash":"skip","starting_deadline":"0s",` +
		`"stop_grace":"10s","leftovers":"wait","on_lost_request":"wait"}}`
	if got := s.Definition(); got != want {
		t.Errorf("a changed definition makes a fleet of two versions disagree:\n got %s\nwant %s", got, want)
	}
}

// TestDefinitionIsOfTiming: what is run, and in which order schedules stand, is not compared.
func TestDefinitionIsOfTiming(t *testing.T) {
	a, b := example(), example()
	b.Command = &Command{Shell: "something else"}
	b.Schedules = []string{"@hourly", "15 4 1 * *"}
	b.Secrets = []string{"X"}
	b.ScopeDeclared = true
	if a.Definition() != b.Definition() {
		t.Errorf("these differ:\n%s\n%s", a.Definition(), b.Definition())
	}
	b.DST = DSTVixie // the default, in words
	if a.Definition() != b.Definition() {
		t.Errorf("these differ:\n%s\n%s", a.Definition(), b.Definition())
	}
	b.DST = DSTSkip
	if c, err := ParseDefinition(b.Definition()); a.Definition() == b.Definition() || err != nil || c.DST != DSTSkip {
		t.Errorf("another meaning of daylight saving makes no difference, or is not read: %v", err)
	}
	b.DST, b.Source = "", "https://shop.example/jobs"
	if c, err := ParseDefinition(b.Definition()); a.Definition() == b.Definition() || err != nil || c.Source != b.Source {
		t.Errorf("another source makes no difference, or is not read: %v", err)
	}
	b.Source, b.Timezone = "", "UTC"
	if a.Definition() == b.Definition() {
		t.Error("another zone makes no difference")
	}
}

// TestEveryPolicyFieldCounts: a field that Definition forgot would let servers disagree unseen.
func TestEveryPolicyFieldCounts(t *testing.T) {
	base := example()
	change := func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString("changed")
		case reflect.Slice:
			v.Set(reflect.ValueOf([]string{"changed"}))
		default:
			v.SetInt(v.Int() + int64(time.Second))
		}
	}
	var visit func(v reflect.Value, path string, of *Spec)
	visit = func(v reflect.Value, path string, of *Spec) {
		for i := range v.NumField() {
			name := path + v.Type().Field(i).Name
			if v.Field(i).Kind() == reflect.Struct {
				visit(v.Field(i), name+".", of)
				continue
			}
			saved := reflect.ValueOf(v.Field(i).Interface())
			change(v.Field(i))
			if of.Definition() == base.Definition() {
				t.Errorf("%s is not in the definition", name)
			}
			back, err := ParseDefinition(of.Definition())
			if err != nil || !reflect.DeepEqual(back.Policy, of.Policy) {
				t.Errorf("%s: read back as %+v, %v", name, back, err)
			}
			v.Field(i).Set(saved)
		}
	}
	of := example()
	visit(reflect.ValueOf(&of.Policy).Elem(), "Policy.", of)
}

func TestParse(t *testing.T) {
	if c, err := ParseConcurrency("replace"); err != nil || c != Replace {
		t.Errorf("replace: %q, %v", c, err)
	}
	if c, err := ParseConcurrency("Wait"); err != nil || c != Wait {
		t.Errorf("Wait: %q, %v", c, err)
	}
	_, err := ParseConcurrency("FORBID")
	if want := `"FORBID": want Allow, Forbid, Replace or Wait`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, bad := range []error{
		second(ParseScope("Host")), second(ParseCatchUp("")), second(ParseOnCrash("retry")),
		second(ParseLeftovers("keep")), second(ParseOnLostRequest("no")),
	} {
		if bad == nil || !strings.Contains(bad.Error(), "want ") {
			t.Errorf("got %v, want a refusal that lists what is accepted", bad)
		}
	}
	if l, err := ParseLeftovers("leave"); err != nil || l != LeftoversLeave {
		t.Errorf("leave: %q, %v", l, err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestLeaf: job imports nothing of ours, nor of anybody else's.
func TestLeaf(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{join .Imports \"\\n\"}}", ".").Output()
	if err != nil {
		t.Skip("no go command here")
	}
	for _, path := range strings.Fields(string(out)) {
		if strings.Contains(path, ".") {
			t.Errorf("imports %s", path)
		}
	}
}

// TestAFunctionShowsInTheDefinition: a server of another kind of work is another definition, the function's
// name is not, and what was stored before there were functions is read as before.
func TestAFunctionShowsInTheDefinition(t *testing.T) {
	plain, function := example(), example()
	function.Command, function.Function = nil, &Function{Name: "main.report"}
	function.Policy = plain.Policy
	if plain.Definition() == function.Definition() {
		t.Error("a function and a command have one definition")
	}
	renamed := *function
	renamed.Function = &Function{Name: "main.reports"}
	if renamed.Definition() != function.Definition() {
		t.Error("a function that is renamed makes another definition")
	}
	back, err := ParseDefinition(function.Definition())
	if err != nil || back.Function == nil {
		t.Errorf("read back as %+v, %v", back, err)
	}
	if back, err = ParseDefinition(plain.Definition()); err != nil || back.Function != nil {
		t.Errorf("a command is read back as %+v, %v", back, err)
	}
	if p := function.DefaultPolicy(); p.Timeout != 0 || p.Retries.MaxAttempts != 1 {
		t.Errorf("a function's default policy is %+v", p)
	}
}
