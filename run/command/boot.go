package command

import "github.com/dibs-run/dibs/lease"

// EarlierBoot reports whether h was a process of an earlier boot of the host of self. Its work ended with that
// boot. Both holders must have the same HostID (rule H1) and the same Host, because a copied disk image has the
// HostID of its original.
func EarlierBoot(self, h lease.Holder) bool {
	return h.HostID != "" && h.HostID == self.HostID && h.Host == self.Host &&
		h.BootID != "" && self.BootID != "" && h.BootID != self.BootID
}
