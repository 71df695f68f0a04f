// Package chaos holds one test: a fleet of three hosts, a store, and faults at random from a seed, watched from
// outside of dibs.
//
// Each host has a network, a process, a mount and a host-name namespace of its own, and a directory for dibs. On each
// run `dibs serve`, `dibs work` and callers of `dibs run` and `dibs task enqueue`, as cron would start them; an init
// restarts what fails. The store is a server of the test's own, with a replica, behind a proxy per host.
//
// The observer is no part of dibs: the work itself appends a line when it begins, every 25 ms, and when it ends, with
// the kernel's boot clock, which all hosts share. From these lines the test computes overlaps, compares each tick's
// recorded outcome with what ran, and measures how long everything takes to run again once all faults are healed.
//
// The test process moves into namespaces of its own first. Its end, however it comes, ends every process, network and
// mount of the round; nothing is left to clean up.
//
// DIBS_TEST_CHAOS=30m says how long the faults go on (a short smoke by default), DIBS_TEST_SEED chooses the same
// faults again (what they hit depends on the machine's timing as well), DIBS_TEST_CHAOS_FAULTS keeps the kinds of
// fault whose names match a regular expression, and DIBS_TEST_CHAOS_KEEP names a directory for the evidence of a
// failed round.
package chaos
