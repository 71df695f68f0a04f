package driver

import "errors"

// ErrStale is what a store returns from Register where the worker's lease is not live. Nothing was written.
var ErrStale = errors.New("the task is no longer this worker's")
