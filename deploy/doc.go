// Package deploy keeps other schedulers, such as a crontab, in step with what is wanted. It compares desired and
// installed entries, plans the difference and carries it out. An entry that it writes calls `dibs trigger`; dibs
// then decides whether the job runs.
//
// Use [Prepare] to see a [Plan], and [Apply] to carry one out. A [Request] is Install, Prune, Adopt or Eject.
// deploy/crontab, deploy/systemd, deploy/kubernetes and deploy/eventbridge are the targets. Apply holds the target's
// lock, plans again under it, and writes nothing if there is nothing to do.
//
// # How entries are recognised
//
// The state is in the target. Each entry of dibs has a mark with its identity and two hashes, one of the
// specification and one of the text that was written. They distinguish these cases:
//
//   - The text is not the one that was written: somebody edited it by hand. It is kept until Overwrite is asked for.
//   - The text is as it was written, and the specification is another one: an update.
//   - Both hashes agree, and this version of dibs would write another text: an outdated rendering.
//
// An entry without a mark is foreign, and stays byte for byte. Only Adopt takes over a foreign entry, and only one
// that is proven to do the same, or one that cronix marked for the same job.
package deploy
