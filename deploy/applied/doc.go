// Package applied keeps on a host what `dibs apply` needs afterwards: a record of each manifest and target, so that
// others can compare them again, and copies of jobs' specifications that entries name instead of the manifest.
package applied
