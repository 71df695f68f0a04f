package guardian

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
)

// A given is a descriptor that the command inherits from the caller of its supervisor, under the number that it has
// there. Until then warden and guardian have it under another, because that number may be their connection's.
type given struct{ fd, number int }

// none is a descriptor that a child has not.
const none = ^uintptr(0)

// Numbers writes the numbers of descriptors that a command inherits, for the arguments of warden and guardian.
func Numbers(fds []int) string {
	words := make([]string, len(fds))
	for i, fd := range fds {
		words[i] = strconv.Itoa(fd)
	}
	return strings.Join(words, ",")
}

// parseGiven reads what Numbers wrote. The descriptors are first and following.
func parseGiven(numbers string, first int) (all []given, err error) {
	if numbers == "" {
		return nil, nil
	}
	for i, word := range strings.Split(numbers, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < Socket {
			return nil, errors.New("the inherited descriptors are not understood: " + numbers)
		}
		all = append(all, given{first + i, n})
	}
	return all, nil
}

// closeGiven closes what only the command needs: a reader must see the end of it.
func closeGiven(all []given) {
	for _, g := range all {
		_ = syscall.Close(g.fd)
	}
}

// files lists the descriptors of the command by their numbers. Locks get the lowest that the caller has not used.
func (g *guard) files() []uintptr {
	files := []uintptr{0, 1, 2}
	for _, in := range g.given {
		for len(files) <= in.number {
			files = append(files, none)
		}
		files[in.number] = uintptr(in.fd)
	}
	if g.policy == Leave || g.arm.As.Set { // another user must not be able to free the lock
		return files
	}
	at := Socket
	for _, fd := range g.locks {
		for at < len(files) && files[at] != none {
			at++
		}
		if at == len(files) {
			files = append(files, none)
		}
		files[at] = uintptr(fd)
	}
	return files
}
