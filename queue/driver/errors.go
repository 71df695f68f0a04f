package driver

import "errors"

// ErrStale is returned by a store's Register if the worker's lease is not live. Nothing was written.
var ErrStale = errors.New("the task is no longer this worker's")
