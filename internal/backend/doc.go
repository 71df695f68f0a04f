// Package backend makes of a store what the scheduler works with, for a process: who this process is to others, how
// long its leases are, what it keeps on this host for a time when the store does not answer, and how the work of a
// dead process of this host is recognised. Every program of dibs goes through it.
package backend
