// Package hook tells others what happens to jobs: a command, a webhook, or a ping in the
// convention of healthchecks.io. It is told by the scheduler and works beside it: each hook has a
// line of its own, in which what it is told of is told on in order, one at a time, within bounds.
package hook
