package guardian

import (
	"errors"
	"syscall"
)

// awaitArm reads the first message. It also notices a supervisor that died in the meantime: nothing may start after
// that death, since an observer who found neither process would conclude that the work is gone.
func awaitArm() (Message, error) {
	fds := []pollFd{{fd: Socket, events: pollIn}}
	if err := poll(fds, -1); err != nil {
		return Message{}, err
	}
	m, err := receive()
	if err != nil || m.Kind != Arm {
		return m, errors.Join(errors.New("the supervisor said nothing"), err)
	}
	if err := poll(fds, 0); err != nil || fds[0].revents&pollHup != 0 {
		return m, errors.Join(errors.New("the supervisor has died"), err)
	}
	return m, nil
}

func receive() (Message, error) {
	var b [MessageSize + 1]byte
	n, err := syscall.Read(Socket, b[:])
	if err != nil {
		return Message{}, err
	}
	return Decode(b[:n])
}

// send tells the supervisor; a dead one is noticed by watch, too.
func send(m Message) error {
	_, err := syscall.Write(Socket, m.Encode())
	return err
}
