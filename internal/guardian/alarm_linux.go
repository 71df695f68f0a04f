package guardian

import (
	"syscall"
	"time"
	"unsafe"
)

// An Alarm is a timer on the boot clock at whose expiry the kernel sends this process a signal: SIGCONT
// wakes a process that is stopped and disturbs no other; SIGKILL ends one that is stopped. So an alarm
// keeps a deadline that the process itself may be unable to keep. Children do not inherit it.
type Alarm struct{ id int32 }

// NewAlarm makes an alarm that is not set. It fails where the user's limit of pending signals
// (ulimit -i) is used up.
func NewAlarm(s syscall.Signal) (Alarm, error) {
	event := struct { // sigevent(7), with SIGEV_SIGNAL
		value          uint64
		signal, notify int32
		_              [48]byte
	}{signal: int32(s)}
	var a Alarm
	_, err := call("timer_create", syscall.SYS_TIMER_CREATE, clockBoottime, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&a.id)), 0, 0)
	return a, err
}

// Set has the alarm go off at an instant of the boot clock, at once if that has passed; zero is never.
func (a Alarm) Set(at time.Duration) error {
	spec := struct{ interval, value syscall.Timespec }{value: syscall.NsecToTimespec(int64(at))}
	_, err := call("timer_settime", syscall.SYS_TIMER_SETTIME, uintptr(a.id), timerAbsolute, uintptr(unsafe.Pointer(&spec)), 0, 0)
	return err
}

// Delete deletes the alarm.
func (a Alarm) Delete() {
	_, _ = call("timer_delete", syscall.SYS_TIMER_DELETE, uintptr(a.id), 0, 0, 0, 0)
}
