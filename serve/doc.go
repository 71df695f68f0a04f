// Package serve lets a Go program do what `dibs serve`, `dibs trigger` and `dibs work` do: it serves the jobs of a
// manifest (Server), fires one of them (Job), or works tasks with a command in any language (Worker). Those commands
// are this package with flags, signals and messages.
//
//	func main() {
//		command.GuardianMain() // of run/command: it watches over the commands that jobs run
//		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
//		defer stop()
//		st, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
//		…
//		s, err := serve.New(serve.Store{Opened: st}, serve.Manifest{From: "/etc/shop/jobs.yaml"}, serve.Options{DefaultScope: job.Global})
//		…
//		err = s.Run(ctx) // until ctx ends; then it drains
//	}
//
// If jobs run commands, have conditions, or have hooks that are commands, the program must call command.GuardianMain
// first in main: the guardian of a command is the program itself, executed once more. For functions on a schedule,
// locks and typed tasks, use package dibs.
//
// # Stores
//
// Pass a Store that is already open, which the caller still owns, or one that is opened when the first job needs it.
// With the latter, an application can start while its database is unavailable, and a manifest with an error is
// refused without the store. If the store is shared, jobs of scope host live in a store of this host, Options.Host,
// which is opened only if there are such jobs.
//
// # Errors
//
// A *Refusal says what is wrong with the options or the manifest. All other errors are the store's, and wrap
// lease.ErrUnavailable if it does not answer.
package serve
