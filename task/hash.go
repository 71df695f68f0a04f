package task

import (
	"crypto/sha256"
	"encoding/binary"
)

// A Hash is the identity of a unique key or of a limit within its namespace.
type Hash [16]byte

// hash writes every part after its length, so that two different lists of parts never give the same bytes.
func hash(what, kind string, shared bool, key string) (h Hash) {
	if shared {
		kind = ""
	}
	b := make([]byte, 0, 128) // most fit without an allocation
	for _, part := range []string{what, kind, key} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	copy(h[:], sum[:])
	return h
}
