package command

import (
	"os"
	"sync"

	"github.com/dibs-run/dibs/lease"
)

// Self describes this process as a holder: Host, BootID, PIDNS, PID and Start. The caller sets ID, RunID, Command,
// Cgroup and HostID (rule H1).
func Self() lease.Holder { return self() }

var self = sync.OnceValue(func() lease.Holder {
	h := lease.Holder{PID: os.Getpid()}
	h.Host, _ = os.Hostname()
	identify(&h)
	return h
})
