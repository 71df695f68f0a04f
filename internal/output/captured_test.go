package output

import (
	"bytes"
	"io"
	"testing"
)

// However much a run prints, with line ends or without any: what is held of it is bounded, its end is kept.
func TestWhatIsHeldOfAnEndlessOutput(t *testing.T) {
	for _, block := range [][]byte{bytes.Repeat([]byte("y\n"), 16<<10), bytes.Repeat([]byte("y"), 32<<10), bytes.Repeat([]byte{'\n'}, 32<<10)} {
		var kept []byte
		p := NewPrinter(io.Discard)
		c := &Captured{To: p, Prefix: []byte("job | "), Keep: func(b []byte) { kept = b }}
		for range 16 {
			if n, err := c.Write(block); n != len(block) || err != nil {
				t.Fatal(n, err)
			}
			if held := cap(c.tail) + cap(c.lines.rest[0]); held > 8*(MaxKept+len(block)) {
				t.Fatalf("%d bytes are held", held)
			}
		}
		_, _ = io.WriteString(c, "the end")
		if err := c.Close(); err != nil || len(kept) != MaxKept || !bytes.HasSuffix(kept, []byte("the end")) {
			t.Errorf("%v, %d bytes kept", err, len(kept))
		}
		if n, err := c.Write([]byte("too late")); n != 8 || err != nil || bytes.HasSuffix(kept, []byte("too late")) {
			t.Errorf("%d, %v", n, err)
		}
	}
}
