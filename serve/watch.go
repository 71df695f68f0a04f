package serve

import (
	"crypto/sha256"

	"github.com/dibs-run/dibs/manifest/source"
)

// watch notices when the content of a file, or of a directory's files, changes. It trusts a change only after seeing
// it twice, so that a file that is being written, or removed and replaced, is not reloaded halfway.
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

// changed looks once, and reports whether the content is new since seen, and the same as at the look before.
func (w *watch) changed() bool {
	if w.from == nil {
		return false
	}
	before := w.latest
	w.latest = w.from.Fingerprint()
	return w.latest == before && w.latest != w.last
}

// seen accepts the latest look as known.
func (w *watch) seen() { w.last = w.latest }
