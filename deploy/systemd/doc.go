// Package systemd installs entries as timers of systemd, each with a service: for the whole system, or for one user.
//
// An entry is dibs-APP.JOB.N.timer and its .service, in a directory of units, and the link that enables the timer.
// The first line of both files is a comment, the mark:
//
//	# dibs:entry shop/invoices#0 spec=… text=… (written by dibs: change the manifest)
//
// Units of others in the directory are not touched. A timer that somebody disabled counts as edited by hand.
//
// If systemd runs, it is told of what changed, and of nothing else: daemon-reload once, and a restart of the timers
// that are new or have changed. If telling it fails, the next Apply does it.
//
// A fire that loses the tick to another server ends with a status that the service counts as success. A timer does
// not start a service again that is still at work. An entry with Overlap therefore has each fire in a unit of its
// own, by systemd-run(1).
package systemd
