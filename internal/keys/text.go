package keys

import (
	"fmt"
	"strings"
)

// MostText is the length of the longest text that Text returns, in bytes. Of a longer one the first 4 KiB are kept.
const (
	MostText = head + 64
	head     = 4 << 10
)

// Text returns s or, of a longer one, its beginning and its full length. A text that was cut before stays as it is.
func Text(s string) string {
	if len(s) <= MostText {
		return s
	}
	return strings.ToValidUTF8(s[:head], "") + fmt.Sprintf("… (%d bytes in all)", len(s))
}
