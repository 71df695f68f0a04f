// Package serve has a Go program do what `dibs serve`, `dibs trigger` and `dibs work` do: it serves the jobs of a
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
// A program whose jobs run commands, ask whether to run, or have hooks that are commands, calls command.GuardianMain
// first in main: the guardian of a command is the program itself, executed once more. Functions on a schedule, locks
// and typed tasks are package dibs.
//
// # Stores
//
// A Store is open already, and stays the caller's, or it is opened when the first job needs it: then an application
// can be started while its database is away, and a manifest that is wrong is refused without it. Jobs of scope host
// live in a store of this host, Options.Host, beside a shared one; it is opened only if there are such jobs.
//
// # Errors
//
// A *Refusal says what is wrong with the options or the manifest. All other errors are of the store, and wrap
// lease.ErrUnavailable where it does not answer.
package serve
