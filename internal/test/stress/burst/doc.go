// Package burst holds one test: thousands of jobs are due at one second, at a store that is near or far away. All of
// them run once, and the requests that this takes are counted.
package burst
