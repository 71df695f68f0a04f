package command

import "github.com/dibs-run/dibs/lease"

// EarlierBoot reports whether h was a process of an earlier boot of the host of self: then its work ended with that
// boot. Both must carry the embedded directory's id (rule H1), and the same host's name, since a copied disk image
// brings the id along.
func EarlierBoot(self, h lease.Holder) bool {
	return h.HostID != "" && h.HostID == self.HostID && h.Host == self.Host &&
		h.BootID != "" && self.BootID != "" && h.BootID != self.BootID
}
