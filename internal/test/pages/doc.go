// Package pages tests what the pages say: each fenced block of the README, of docs/first-steps and of
// docs/how-to/cronix.md is run as it stands there, and each relative link of every page leads somewhere.
//
// # Blocks
//
// The word behind the fence says what a block is, and how it is tested:
//
//	sh        a script for bash -eu, on a host with dibs installed
//	console   commands behind "$ ", with what they print compared
//	crontab   the crontab of three hosts, run by Debian's cron
//	yaml      a manifest, for dibs validate
//	go        a file of a program, or statements of one
//
// A comment in the line before a fence says more, and readers do not see it:
//
//	<!-- test: file jobs.yaml -->   the block is written to this file, below the home directory of the page's user
//	<!-- test: background until COMMAND -->   the block goes on, and the next one is run once COMMAND succeeds
//	<!-- test: not run, WHY -->     the block cannot be run. The tests count these
//
// # The host
//
// A page's blocks are run one after the other on one host: namespaces for mounts, processes, the network and
// the host's name, over a writable layer in memory. So a page may install into /usr/local/bin and /etc, and
// nothing of it reaches this machine. That needs root.
package pages
