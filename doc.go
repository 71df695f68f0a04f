// Package dibs gives a program that runs on several servers three things: a lock (Client.Do), functions that
// are run on a schedule by one server of the fleet (Client.Cron), and tasks that are worked by any of them
// (Handle, Client.Enqueue). It has no server of its own. What it needs to know is kept in the database that the
// program has already, opened with one of the packages below store: postgres, mysql, redis, or a directory
// (file).
//
//	st, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
//	c, err := dibs.New(st, dibs.Options{App: "shop"})
//	c.Cron("reports", "15 4 * * *", writeReports)        // each tick once in the fleet
//	dibs.Handle(c, welcome, sendWelcome)                 // var welcome = dibs.Define[User]("welcome")
//	err = c.Run(ctx)                                     // until ctx ends; then it drains
//
// Every server runs the same program. When one dies in the middle of its work, another has its lock, its
// schedule and its tasks within one TTL of the store, 15 s by default.
//
// # What is promised
//
// A tick runs once, whatever the servers' clocks say and whenever they start. It ends in one outcome, which
// `dibs history` and `dibs explain` show. Work that loses its lease is told so, by the end of its context,
// before anybody else can be granted the lease; and every grant has a token, larger than all before it, for the
// systems that the work writes to. A Go function cannot be killed from outside: one that ignores its context is
// reported (Options.OnOverrun), and only the token excludes it then. docs/why/promises.md has all promises,
// docs/why/rules.md the exact rules.
//
// # What a program should do
//
// Register everything, then call Run once. Have Run's context end on SIGTERM (signal.NotifyContext): it then
// lets running work go on for 12 s, ends it, and returns within 25 s. Let functions heed their contexts. Give
// all processes of the program the same Options.App and the same schedules; where two versions differ during a
// deployment, the latest that was registered counts.
//
// The packages below this one are its parts, for programs that need more: lease (locks), queue (tasks) and task
// (what one may say), scheduler and schedule (jobs), run (executions), job (policies), history. Package dibstest is
// for tests.
//
// The client of one database is linked, that of the store that was opened, and neither a reader of manifests
// nor a command line.
package dibs
