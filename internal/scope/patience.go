//go:build !dibstest

package scope

import "time"

// patience bounds what is asked of systemd for a command, from the connection to the last answer. It is short beside a
// lease's TTL: a job that is to start waits no longer.
const patience = 2 * time.Second
