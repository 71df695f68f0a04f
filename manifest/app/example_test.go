package app_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/dibs-run/dibs/job"
	"github.com/dibs-run/dibs/manifest/app"
)

// An application with one job. Serve it, point dibs at it, and it is fired:
//
//	dibs serve https://shop.internal --app shop --secret env:CRON_SECRET
func Example() {
	shop, err := app.New(app.Options{Name: "shop", URL: "https://shop.internal",
		Secrets: [][]byte{[]byte("correct horse")}, SecretRefs: []string{"env:CRON_SECRET"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = shop.Handle(job.Spec{Name: "invoices", Schedules: []string{"15 4 1 * *"}, Timezone: "Europe/Berlin"},
		func(ctx context.Context, a app.Attempt) error {
			return writeInvoices(ctx, a.Scheduled, a.Token) // ctx ends when dibs hangs up
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle(app.Path, shop)
	mux.Handle("/cron/", shop)
	fmt.Println(string(shop.Manifest()))
	// Output:
	// {"version":1,"app":"shop","jobs":[{"name":"invoices","schedules":["15 4 1 * *"],"timezone":"Europe/Berlin","request":{"method":"POST","url":"https://shop.internal/cron/invoices","headers":{},"body":""},"policy":{"concurrency":"Forbid","concurrency_scope":"global","timeout_seconds":60,"retries":{"max_attempts":3,"min_seconds":1,"max_seconds":60}},"auth":{"secret_refs":["env:CRON_SECRET"]}}]}
}

func writeInvoices(context.Context, any, int64) error { return nil }
