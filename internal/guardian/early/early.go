// Package early makes a process that was started as a guardian one as soon as Go has initialised
// this package, before the initialisers of a program's heavier dependencies have run. A program
// imports it for that effect alone:
//
//	import _ "github.com/dibs-run/dibs/internal/guardian/early"
//
// It is a matter of milliseconds, never of correctness: without it, guardian.Main does the same
// at the beginning of main.
package early

import "github.com/dibs-run/dibs/internal/guardian"

func init() { guardian.Main() }
