// Package testsize says how much a test does: little by default, much in the long rounds.
//
// DIBS_TEST_LONG asks for these: 1 for the whole of them, 0.2 for a fifth of what can be had in parts.
package testsize

import (
	"os"
	"strconv"
	"testing"
)

// Env is the name of the setting.
const Env = "DIBS_TEST_LONG"

// Long says whether this is a long round.
func Long() bool { return share() > 0 }

// Of is how much to do: short by default, in a long round its share of long, though no less than short.
func Of(short, long int) int {
	return max(short, int(float64(long)*share()))
}

// Seeds is how many of n seeds a test goes through that looks for what seldom happens. The race detector, which makes
// each of them ten times as long, looks for something else: it gets a quarter of them, but two.
func Seeds(n int) uint64 {
	if raced {
		return uint64(min(n, max(n/4, 2)))
	}
	return uint64(n)
}

// Counts is called by a test that does very much in one goroutine: it counts what steps cost, makes each part of them
// fail, or has thousands of one thing. The race detector sees nothing in it, and makes it ten times as long: under it
// the test is skipped. make test runs it.
func Counts(t testing.TB) {
	t.Helper()
	if raced {
		t.Skip("it counts in one goroutine: it runs without the race detector")
	}
}

// Outside is called by a test whose work is done by other processes: dibs itself, or a server of its own that it
// hurts. What it shows is seldom a race of this process, and it takes long: under the race detector it is skipped, but
// for DIBS_TEST_RACE=all, which the long rounds set. make test runs it.
func Outside(t testing.TB) {
	t.Helper()
	if Raced() {
		t.Skip("other processes do its work: the race detector meets it in the long rounds only")
	}
}

// Raced says whether the race detector watches in a round that is not a long one. What is no race of this process may
// then be left to make test.
func Raced() bool { return raced && os.Getenv("DIBS_TEST_RACE") != "all" }

// Repeats is called by a test that does again, in another way, what one beside it does: make test leaves it to the
// race round.
func Repeats(t testing.TB) {
	t.Helper()
	if !raced && !Long() {
		t.Skip("another test does nearly the same: the race round and the long ones meet it")
	}
}

func share() float64 {
	told := os.Getenv(Env)
	if told == "" {
		return 0
	}
	if n, err := strconv.ParseFloat(told, 64); err == nil && n >= 0 {
		return n
	}
	panic(Env + "=" + told + ": want a number, 1 for the whole long rounds")
}
