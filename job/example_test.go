package job_test

import (
	"fmt"
	"time"

	"github.com/dibs-run/dibs/job"
)

// What all servers must agree on of a job is its definition: when, and under which policy. What it runs may differ.
func ExampleSpec_Definition() {
	s := job.Spec{App: "shop", Name: "invoices", Schedules: []string{"15 4 1 * *"}, Timezone: "Europe/Berlin",
		Command: &job.Command{Args: []string{"php", "generateInvoices.php"}}}
	s.Policy = s.DefaultPolicy()
	other := s
	other.Command = &job.Command{Args: []string{"php", "generateInvoices.php", "--fast"}}
	fmt.Println(s.Key(), s.Definition() == other.Definition())
	other.Policy.Concurrency = job.Replace
	fmt.Println(s.Key(), s.Definition() == other.Definition())
	// Output:
	// shop/invoices true
	// shop/invoices false
}

// A registered job's definition says when the job is due and under which policy, without the job's manifest.
func ExampleParseDefinition() {
	s := job.Spec{App: "shop", Name: "invoices", Schedules: []string{"15 4 1 * *"}, Timezone: "Europe/Berlin",
		Command: &job.Command{Args: []string{"php", "generateInvoices.php"}}}
	s.Policy = s.DefaultPolicy()
	registered, err := job.ParseDefinition(s.Definition())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(registered.Schedules, registered.Timezone, registered.Policy.CatchUp)
	fmt.Println("a command:", registered.Command != nil)
	// Output:
	// [15 4 1 * *] Europe/Berlin skip
	// a command: false
}

// A hook tells a monitoring service of a job's runs: here in the convention of healthchecks.io.
func ExampleHook_PingURL() {
	s := job.Spec{App: "shop", Name: "invoices"}
	h := job.Hook{On: []job.HookEvent{job.OnStart, job.OnSuccess, job.OnFailure},
		Ping: &job.Request{URL: "https://hc.example/{app}-{job}"}, Timeout: 5 * time.Second}
	fmt.Println(h.PingURL(&s), h.Wants(job.OnFailure), h.Wants(job.OnTooLong))
	// Output:
	// https://hc.example/shop-invoices true false
}

// The values of a policy are words, and the Parse functions refuse all others.
func ExampleParseConcurrency() {
	c, err := job.ParseConcurrency("Replace")
	fmt.Println(c, err)
	_, err = job.ParseConcurrency("sometimes")
	fmt.Println(err)
	// Output:
	// Replace <nil>
	// "sometimes": want Allow, Forbid, Replace or Wait
}
