// Package app is the application's side of the cron-manifest protocol, version 1: it verifies what
// dibs sends, tells a handler which run it is for, lets a run that is sent again do its work once,
// and serves the manifest of the registered jobs at /.well-known/cron-manifest.
//
// What stands between dibs and the application must leave path and query as they are: they are
// signed.
package app
