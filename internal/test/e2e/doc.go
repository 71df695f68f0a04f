// Package e2e tests the whole: the dibs binary as people run it, in real processes, on real
// servers, with an observer outside of dibs that says what truly ran.
//
// The rounds are small by default. With DIBS_TEST_LONG=1 they are the full ones, with the TTL that
// people have by default (15 s) in place of a shorter one.
package e2e
