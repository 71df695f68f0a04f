package command

import (
	"os"
	"sync"

	"github.com/dibs-run/dibs/lease"
)

// Self describes this process as a holder: host, boot, pid namespace, pid and start. ID, RunID,
// Command and Cgroup are the caller's to fill in, as is HostID (rule H1).
func Self() lease.Holder { return self() }

var self = sync.OnceValue(func() lease.Holder {
	h := lease.Holder{PID: os.Getpid()}
	h.Host, _ = os.Hostname()
	identify(&h)
	return h
})
