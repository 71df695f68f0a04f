// Package app is an application's side of signed jobs: a Go web service serves the manifest of its jobs and does
// their work when dibs calls it.
//
//	a, err := app.New(app.Options{Name: "shop", URL: "https://shop.internal",
//		Secrets: [][]byte{secret}, SecretRefs: []string{"env:DIBS_SECRET"}})
//	err = a.Handle(job.Spec{Name: "reindex", Schedules: []string{"@every 10m"}},
//		func(ctx context.Context, at app.Attempt) error { return reindex(ctx, at.Token) })
//	http.ListenAndServe(":8080", a)
//
// An [App] is an http.Handler. It serves the manifest at /.well-known/cron-manifest, verifies the signature of each
// request, tells the function which run it is for, and does the work of a run that is sent again only once (see
// [Once]). [Verify] checks a signature alone, for applications with their own routes.
//
// The protocol is cron-manifest, version 1. Path and query are signed: proxies between dibs and the application must
// leave them as they are.
package app
