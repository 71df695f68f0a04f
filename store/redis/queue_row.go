package redis

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/task"
)

// A row is what changes of a task. task.lua packs it, and it is read here.
type row struct {
	state                                    task.State
	front, suspect                           bool
	priority                                 int
	sub, worker                              uint32
	attempts, granted, crashes, snoozes      int
	enqueued, runAt, expires, started, ended time.Time
	token                                    lease.Token
	reason, stop                             string
}

// Which byte of a row holds what.
const (
	rowFlags   = 8  // state, front, suspect, begun, told, unique, limit, priority
	rowNumbers = 36 // the end of seven uint32: sub-queue, worker, attempts, granted, crashes, snoozes, max_crashes
	rowFixed   = 84 // the end of six doubles: enqueued, run_at, expires, started, ended, token
	rowUnique  = 16 + 8
	rowLimit   = 32 + 4
)

// parseRow reads what a script of this store wrote; what is none is the zero row.
func parseRow(s string) (r row) {
	if len(s) < rowFixed+4 {
		return row{}
	}
	b := []byte(s)
	number := func(i int) uint32 { return binary.LittleEndian.Uint32(b[rowFlags+4*i:]) }
	double := func(i int) int64 {
		return int64(math.Float64frombits(binary.LittleEndian.Uint64(b[rowNumbers+8*i:])))
	}
	r = row{
		state: stateOf(int64(b[0])), front: b[1] == 1, suspect: b[2] == 1, priority: int(int8(b[7])),
		sub: number(0), worker: number(1), attempts: int(number(2)), granted: int(number(3)), crashes: int(number(4)), snoozes: int(number(5)),
		enqueued: instant(double(0)), runAt: instant(double(1)), expires: instant(double(2)), started: instant(double(3)), ended: instant(double(4)),
		token: lease.Token(double(5)),
	}
	rest := b[rowFixed:]
	if b[5] > 0 {
		rest = rest[min(rowUnique, len(rest)):]
	}
	if b[6] > 0 {
		rest = rest[min(rowLimit, len(rest)):]
	}
	r.reason, rest = cut16(rest)
	r.stop, _ = cut16(rest)
	return r
}

// cut16 reads a string that has its length in two bytes before it.
func cut16(b []byte) (string, []byte) {
	if len(b) < 2 {
		return "", nil
	}
	n := min(int(binary.LittleEndian.Uint16(b)), len(b)-2)
	return string(b[2 : 2+n]), b[2+n:]
}

// stateOf reads a state as scripts number it; 0 is none.
func stateOf(n int64) task.State {
	if n < 1 || int(n) > len(task.States) {
		return ""
	}
	return task.States[n-1]
}

func stateNumber(s task.State) int {
	for i, x := range task.States {
		if x == s {
			return i + 1
		}
	}
	return 0
}

// packSpec is what is kept of a spec beside its row: arguments and tags, each with its length before it,
// and the rest as it is declared.
func packSpec(s *task.Spec) []byte {
	var tags []byte
	if len(s.Tags) > 0 {
		tags = []byte(text(s.Tags))
	}
	rest := *s
	rest.Tags, rest.RetryUntil = nil, whole(s.RetryUntil)
	cold := rest.MarshalOptions()
	b := make([]byte, 0, 8+len(s.Args)+len(tags)+len(cold))
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(s.Args))), s.Args...)
	b = append(binary.LittleEndian.AppendUint32(b, uint32(len(tags))), tags...)
	return append(b, cold...)
}

// parseSpec is the reverse, together with what the row and the sub-queue say.
func parseSpec(packed string, r row, sub string) (s task.Spec, err error) {
	b := []byte(packed)
	args, b := cut32(b)
	tags, b := cut32(b)
	if err = s.UnmarshalOptions(b); err == nil && len(tags) > 0 {
		err = json.Unmarshal(tags, &s.Tags)
	}
	s.Args = args
	s.Queue, s.Kind, _ = strings.Cut(sub, "\x1f")
	s.Priority, s.RunAt, s.ExpiresAt = r.priority, r.runAt, r.expires
	return s, err
}

func cut32(b []byte) (part, rest []byte) {
	if len(b) < 4 {
		return nil, nil
	}
	n := min(int(binary.LittleEndian.Uint32(b)), len(b)-4)
	return b[4 : 4+n : 4+n], b[4+n:]
}

// subQueueName is how scripts call a kind in a queue; neither has a control character.
func subQueueName(queue, kind string) string { return queue + "\x1f" + kind }
