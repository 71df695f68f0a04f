// Package lazy delays what a process may never need: dibs starts for each line of a crontab, and every package that it
// links is initialised first.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp compiles an expression at the first call, and panics there if it is wrong. It is safe for concurrent use.
func Regexp(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
