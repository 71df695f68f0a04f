package serve

import (
	"crypto/sha256"

	"github.com/dibs-run/dibs/manifest/source"
)

// watch notices that a file, or a directory's files, have another content. It believes what it saw
// twice: a file that is being written, or removed and put in place anew, is not reloaded halfway.
type watch struct {
	from         *source.Source // nil if there is nothing to watch
	last, latest fingerprint
}

type fingerprint = [sha256.Size]byte

func newWatch(from *source.Source) *watch {
	if !from.Watchable() {
		return &watch{}
	}
	now := from.Fingerprint()
	return &watch{from, now, now}
}

// changed looks, and says whether what it sees is new since seen, and the same as a look before.
func (w *watch) changed() bool {
	if w.from == nil {
		return false
	}
	before := w.latest
	w.latest = w.from.Fingerprint()
	return w.latest == before && w.latest != w.last
}

// seen takes the latest look as known.
func (w *watch) seen() { w.last = w.latest }
