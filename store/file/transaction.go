package file

import (
	"errors"

	"github.com/dibs-run/dibs/queue/driver"
)

// ErrDeferred is returned for a transaction that began DEFERRED, as SQLite's do unless they say otherwise, and
// cannot become one that writes: another one is writing, or has written since this one read. Nothing was done,
// and reading goes on.
var ErrDeferred = errors.New("the transaction began DEFERRED, and another one writes, or has written since; roll it back and begin it IMMEDIATE, as OpenDB does")

var (
	_ driver.Inserter = (*Tx)(nil)
	_ driver.Finisher = (*Tx)(nil)
)
