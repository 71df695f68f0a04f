package guardian

import (
	"errors"
	"strconv"
	"time"
	"unsafe"
)

// A Kind says what a Message is about.
type Kind byte

// From the supervisor to the guardian. The end of the connection is a message as well: the
// supervisor is dead, kill everything at once.
const (
	// Arm is the first: policy and deadline. Only then is the command started.
	Arm Kind = iota + 1
	// Extend moves the deadline to Term and Kill.
	Extend
	// Stop terminates everything now, unless that was done before, and kills at the instant Kill what is left.
	Stop
	// KillAll kills everything now.
	KillAll
	// Release frees locks that Arm.Hold has kept.
	Release
)

// From the guardian to the supervisor. The end of the connection without Failed or Empty before
// it means that the guardian was killed. If Starting was the last, nobody knows whether the command ran.
const (
	// Started: the command was executed; Value is its pid, Guardian the guardian's.
	Started Kind = iota + 100
	// Failed: nothing was executed; Value is the errno. The guardian has ended.
	Failed
	// Exited: the main process ended with the wait status Value.
	Exited
	// Empty: nothing of the command is left (or, with Leave, it was let go). The guardian ends.
	Empty
	// Waiting is the first: the guardian, whose pid is Guardian, lives, and starts nothing before Arm.
	Waiting
	// Starting: the command is executed now, unless Failed follows.
	Starting
)

// Leftovers says what becomes of processes that outlive the command's main process (rule L7).
type Leftovers byte

// The policies for leftovers.
const (
	Wait Leftovers = iota
	Kill
	Leave
)

// A Message is one datagram between supervisor and guardian. Which fields count depends on Kind.
type Message struct {
	Kind Kind
	// Term and Kill are instants of the boot clock; zero is none.
	Term, Kill time.Duration
	Value      int64
	Guardian   int64
	// ByDeadline, of Exited: a passed deadline had ended it.
	ByDeadline bool
	// The fields from here on belong to Arm.
	Leftovers Leftovers
	Grace     time.Duration
	Locks     byte // how many descriptors after Socket are locks
	Hold      bool // keep them after Empty, until Release, the supervisor's death or Kill
	As        Identity
	Umask     int32 // negative: the guardian's
	Nice      int8  // added to the command's; 0: nothing
	// Foreground is the group of processes in the foreground of the terminal at standard input, which
	// the command's group is to replace; 0: none.
	Foreground int32
}

// An Identity is the user and the groups that the command runs as.
type Identity struct {
	Set      bool // else as the guardian
	Groups   byte // how many of Group count
	UID, GID uint32
	Group    [MaxGroups]uint32 // the supplementary ones
}

// MaxGroups is how many supplementary groups a command can have.
const MaxGroups = 64

// MessageSize is that of every message. It is sent as it lies in memory, since both ends are
// the same binary on the same machine.
const MessageSize = int(unsafe.Sizeof(Message{}))

// Encode returns the message as one datagram.
func (m Message) Encode() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&m)), MessageSize) }

// Decode reads a datagram that Encode made.
func Decode(b []byte) (m Message, err error) {
	if len(b) != MessageSize {
		return m, errors.New("guardian: a message of " + strconv.Itoa(len(b)) + " bytes instead of " + strconv.Itoa(MessageSize))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&m)), MessageSize), b)
	return m, nil
}
