package keys

import (
	"strings"
	"testing"
)

// A text is cut after 4 KiB, with its full length, and within no character.
func TestALongTextKeepsItsBeginningAndItsLength(t *testing.T) {
	for n, want := range map[int]string{10: strings.Repeat("x", 10), head: strings.Repeat("x", head), MostText: strings.Repeat("x", MostText),
		MostText + 1: strings.Repeat("x", head) + "… (4161 bytes in all)", 500_000: strings.Repeat("x", head) + "… (500000 bytes in all)"} {
		if got := Text(strings.Repeat("x", n)); got != want {
			t.Errorf("of %d bytes there are %d: …%s", n, len(got), got[max(len(got)-40, 0):])
		}
	}
	if got := Text("x" + strings.Repeat("é", 5000)); got != "x"+strings.Repeat("é", head/2-1)+"… (10001 bytes in all)" {
		t.Errorf("a character was cut: %q", got[head-10:])
	}
}
