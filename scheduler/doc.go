// Package scheduler carries out every fire in one way: claim the tick, then the lease, run, record. The server that
// follows a manifest, a single fire, and the recovery after a crash all use it.
//
// Begin with tick.go: it shows the way of one tick, from top to bottom. A Backend (backend.go) has the stores, the
// settings, and the queries about them; parts.go lists the types that do the work, one for each duty. A Server
// (server.go) is above: load.go registers jobs, follow.go fires what is due, turn.go spreads ticks over the servers,
// and sweep.go handles what others left behind.
package scheduler
