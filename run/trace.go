package run

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
)

// TraceParent returns the attempt's place in a trace, in the format of W3C Trace Context: one trace per run, one
// span per attempt. Both derive from the run's id, so that anybody who knows a run finds its trace: the trace's id
// is the run's own, without dashes.
func (c Call) TraceParent() string {
	trace, err := uuid.Parse(c.Run.ID)
	if err != nil { // a library's user may name runs as they like
		sum := sha256.Sum256([]byte(c.Run.ID))
		trace = uuid.UUID(sum[:16])
	}
	span := sha256.Sum256(fmt.Appendf(nil, "%s/%d", c.Run.ID, c.Attempt))
	return "00-" + hex.EncodeToString(trace[:]) + "-" + hex.EncodeToString(span[:8]) + "-01"
}
