// Package dibs gives a program that runs on several servers three things: locks (Client.Do), functions that one
// server of the fleet runs on a schedule (Client.Cron), and tasks that any server can work (Handle, Client.Enqueue).
// It has no server of its own. It keeps its state in the database that the program already has, opened with one of
// the packages below store: postgres, mysql, redis, or a directory (file).
//
//	st, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
//	c, err := dibs.New(st, dibs.Options{App: "shop"})
//	c.Cron("reports", "15 4 * * *", writeReports)        // each tick once in the fleet
//	dibs.Handle(c, welcome, sendWelcome)                 // var welcome = dibs.Define[User]("welcome")
//	err = c.Run(ctx)                                     // until ctx ends; then it drains
//
// Every server runs the same program. When one dies in the middle of its work, another takes over its lock, its
// schedule and its tasks within one TTL of the store, 15 s by default.
//
// # What is promised
//
// A tick runs once, whatever the servers' clocks say and whenever they start. It ends in one outcome, which `dibs
// history` and `dibs explain` show. If work loses its lease, its context ends before the lease can be granted to
// another process. Every grant has a token, larger than all before it, for the systems that the work writes to. A Go
// function cannot be killed from outside: one that ignores its context is reported (Options.OnOverrun), and then
// only the token protects against two runs at once. docs/why/promises.md lists all promises, docs/why/rules.md the
// exact rules.
//
// # What a program should do
//
// Register everything, then call Run once. Have Run's context end on SIGTERM (signal.NotifyContext): Run then lets
// running work continue for 12 s, ends it, and returns within 25 s. Functions should heed their contexts. Give all
// processes of the program the same Options.App and the same schedules; if two versions differ during a deployment,
// the one registered last counts.
//
// The packages below this one are its parts, for programs that need more: lease (locks), queue (tasks) and task
// (what a task can specify), scheduler and schedule (jobs), run (executions), job (policies), history, observe
// (events for metrics). Package dibstest is for tests.
//
// The program links only the client of the database that it opens, and neither a manifest reader nor a command line.
package dibs
