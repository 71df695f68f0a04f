package run

import "io"

// A Stream is one of the two on which a command prints. Requests and functions print on Stdout.
type Stream int

// The streams, by their descriptors.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// String returns "stdout" or "stderr".
func (s Stream) String() string {
	if s == Stderr {
		return "stderr"
	}
	return "stdout"
}

// Streams is an Output that may want a command's standard error apart from its standard output. Write is WriteStream
// on Stdout. The order within a stream is kept. Between the streams it is only as good as two pipes allow.
type Streams interface {
	io.Writer
	WriteStream(s Stream, b []byte) (int, error)
	// Apart reports whether the Output wants them apart. If not, a command's two streams are one pipe, in their true
	// order.
	Apart() bool
}

// Apart reports whether an Output wants the two streams apart. An Output that is not a Streams does not.
func Apart(w io.Writer) bool {
	s, ok := w.(Streams)
	return ok && s.Apart()
}

// WriteStream writes what was printed on a stream to an Output. An Output that is not a Streams gets it by Write.
func WriteStream(w io.Writer, s Stream, b []byte) (int, error) {
	if apart, ok := w.(Streams); ok {
		return apart.WriteStream(s, b)
	}
	return w.Write(b)
}
