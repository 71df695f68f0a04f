package run

import "io"

// A Stream is one of the two on which a command prints. What requests and functions print is on Stdout.
type Stream int

// The streams, by their descriptors.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// String is "stdout" or "stderr".
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Streams is an Output that may want a command's standard error apart from its standard output. Write is WriteStream
// on Stdout. The order within a stream is kept; that between the two is only as good as two pipes can tell it.
type Streams interface {
	io.Writer
	WriteStream(s Stream, b []byte) (int, error)
	// Apart says whether it does. A command's two streams are one pipe where it does not, in their true order.
	Apart() bool
}

// Apart says whether an Output wants the two streams apart; one that is not of type Streams does not.
func Apart(w io.Writer) bool {
	s, ok := w.(Streams)
	return ok && s.Apart()
}

// WriteStream writes to an Output what was printed on a stream, as far as the Output knows streams.
func WriteStream(w io.Writer, s Stream, b []byte) (int, error) {
	if apart, ok := w.(Streams); ok {
		return apart.WriteStream(s, b)
	}
	return w.Write(b)
}
