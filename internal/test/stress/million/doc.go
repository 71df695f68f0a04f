// Package million holds one test: as many tasks as the round has go in and out of each store, beside as many that are
// finished already and kept, and beside a snapshot that somebody holds from the beginning to the end. Four worker
// processes do the work; every few seconds one of them is killed and replaced.
//
// Each process writes down what the store told it: what it was given, and which of its reports were accepted. At the
// end these ledgers are compared with the store: no task may be lost or left, and none completed by a worker that
// another one had replaced. What was done when is drawn (docs/reference/queue.md).
package million
