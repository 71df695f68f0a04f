// Package nested lets the commands that a dibs process runs enqueue tasks in that process's store. They do not get
// the store's address, which may contain a password (rule H3). Instead each of them finds in its environment the
// name of a socket of the process that runs it, and a token that is valid while the command runs.
package nested

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/queue"
	"github.com/dibs-run/dibs/task"
)

// Variable tells a command how to reach the process: SOCKET/TOKEN, or Unreachable.
const Variable = "DIBS_STORE_VIA"

// Unreachable is the value of Variable if there is no way, for example because the platform has no such sockets.
const Unreachable = "unreachable"

// maxFrame bounds a message, in bytes: a step of the queue's client, and what JSON adds to it.
const maxFrame = 16 << 20

// ErrUnreachable is wrapped if the process that runs this command cannot be reached. It wraps queue.ErrUnavailable.
var ErrUnreachable = fmt.Errorf("the dibs that runs this command cannot be reached: %w", queue.ErrUnavailable)

// request is what a command asks for; Specs are one step, all or none of it.
type request struct {
	Token string      `json:"token"`
	Specs []task.Spec `json:"specs"`
}

type answer struct {
	Enqueued []task.Enqueued `json:"enqueued,omitempty"`
	Error    string          `json:"error,omitempty"`
	Kind     string          `json:"kind,omitempty"`
}

// kinds are the errors that a command can tell apart.
var kinds = map[string]error{
	"busy":        errBusy,
	"unavailable": lease.ErrUnavailable,
	"unsupported": errors.ErrUnsupported,
}

// errBusy is the answer before anything was read.
var errBusy = errors.New("the dibs that runs this command is busy with other commands of this user")

func failed(err error) answer {
	for kind, is := range kinds {
		if errors.Is(err, is) {
			return answer{Error: err.Error(), Kind: kind}
		}
	}
	return answer{Error: err.Error()}
}

// remote is an error of the other side.
type remote struct {
	text string
	is   error
}

func (r *remote) Error() string { return r.text }
func (r *remote) Unwrap() error { return r.is }

func (a answer) err() error {
	if a.Error == "" {
		return nil
	}
	return &remote{a.Error, kinds[a.Kind]}
}

// send writes a message: its length in four bytes, and JSON.
func send(w io.Writer, v any) error {
	message := bytes.NewBuffer(make([]byte, 4))
	text := json.NewEncoder(message)
	text.SetEscapeHTML(false) // arguments grow by nothing on their way
	if err := text.Encode(v); err != nil {
		return err
	}
	n := message.Len() - 4
	if n > maxFrame {
		return fmt.Errorf("a message of %d bytes is too long", n)
	}
	binary.BigEndian.PutUint32(message.Bytes(), uint32(n))
	_, err := w.Write(message.Bytes())
	return err
}

// receive reads an answer. It does not trust the claimed length before the bytes have arrived.
func receive(r io.Reader, v any) error {
	n, err := receiveSize(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(n)))
	switch {
	case err != nil:
		return err
	case len(text) < n:
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(text, v)
}
