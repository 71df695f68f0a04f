// Package backend prepares a store for the scheduler in one process: who this process is to others, how long its
// leases are, what it keeps on this host while the store does not answer, and how it recognises the work of a dead
// process of this host. Every program of dibs uses it.
package backend
