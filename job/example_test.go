package job_test

import (
	"fmt"

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
