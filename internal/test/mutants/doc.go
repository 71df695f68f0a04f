// Package mutants keeps a set of plausible bugs, and tells which of them the tests find.
//
// Each file of set/, in the folder of the package that it harms, is one bug: what it is, which tests should
// find it, and the lines that make it. `make mutants` puts each in, one at a time, and runs those tests: a bug
// that makes none of them fail has survived, and a test is missing. `make mutants PKG=./lease` does so for one
// package.
//
// A file looks like this:
//
//	An acquire carries no not_after (rule L1).
//
//	test ./lease TestEveryRequestIsBounded
//	file lease/keeper.go
//	-notAfter := k.NotAfter()
//	+var notAfter time.Time
//
// A line that begins with a minus is in the file and goes; one with a plus comes; one with a space stays, and tells
// where. Together they must be found exactly once. The white space at either end of a line does not count, so a bug
// survives a change of indentation; one whose lines are no longer there fails `make test`, and is mended or replaced.
//
// `test PACKAGE` alone runs all tests of a package. `survives REASON` marks a bug that no test can find, or that none
// finds yet, and says why: it is then no failure, and counts in the score all the same.
package mutants
