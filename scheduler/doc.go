// Package scheduler is the one path of a fire: claim the tick, then the lease, run, record. The
// server that follows a manifest, a single fire, and what comes after a crash all go through it.
//
// Begin with tick.go: it is the way of one tick, from top to bottom. A Backend (backend.go) is the stores, the
// settings, and what can be asked of them; parts.go lists the types that do the work, one for each duty. A Server
// (server.go) stands above: load.go registers jobs, follow.go fires what is due, turn.go spreads ticks over the
// servers, and sweep.go looks after what others left behind.
package scheduler
