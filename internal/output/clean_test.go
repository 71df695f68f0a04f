package output

import (
	"bytes"
	"io"
	"testing"
)

// hostile is text that speaks to a terminal, in every way that there is.
const hostile = "a\x1b[2Jb\u009bc\u0085d\x7fe\u202ef\u2066g\u200fh\u061ci\u2028j\u2029k\rl\bm\xffn\U000E0041o"

// What speaks to a terminal is escaped, also where it comes a byte at a time.
func TestCleaner(t *testing.T) {
	var out bytes.Buffer
	c := NewCleaner(&out)
	for i := range len(hostile) { // a byte at a time: characters come in pieces
		if n, err := io.WriteString(c, hostile[i:i+1]); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	_, _ = io.WriteString(c, "\tä 日本\u3000語 🙂\n\xe2\x80")
	c.End()
	want := `a\u001b[2Jb\u009bc\u0085d\u007fe\u202ef\u2066g\u200fh\u061ci\u2028j\u2029k\u000dl\u0008m\xffn\udb40\udc41o` + "\tä 日本\u3000語 🙂\n" + `\xe2\x80`
	if out.String() != want {
		t.Errorf("got  %q\nwant %q", &out, want)
	}
	same := []byte("nothing to do ä\n")
	if got := Clean(same); &got[0] != &same[0] {
		t.Error("copied")
	}
}
