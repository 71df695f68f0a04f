package nested

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/dibs-run/dibs/task"
)

const (
	// mostToken is how far a message is read for its token, in bytes.
	mostToken = 256
	// mostBeside is how much of a task's text is beside its arguments: names, keys, tags and pauses.
	mostBeside = 64 << 10
)

// errForm is the answer to a message that dibs does not write.
var errForm = errors.New("want a token, and then tasks")

// receiveSize reads the length of a message.
func receiveSize(r io.Reader) (int, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return 0, fmt.Errorf("a message of %d bytes is too long", n)
	}
	return int(n), nil
}

// receiveSpecs reads a request. The sender is not trusted: nothing behind the token is read before admits has taken
// it, and the tasks are read one by one, so that a message costs about as much memory as it has bytes.
func receiveSpecs(r io.Reader, admits func(token string) bool) (specs []task.Spec, err error) {
	defer func() {
		var wrong *task.SpecError
		if err != nil && !errors.As(err, &wrong) && !errors.Is(err, errStranger) {
			err = fmt.Errorf("the request cannot be read: %s", strconv.Quote(err.Error()))
		}
	}()
	n, err := receiveSize(r)
	if err != nil {
		return nil, err
	}
	message := &io.LimitedReader{R: r, N: int64(min(n, mostToken))}
	text := json.NewDecoder(message)
	var token string
	if err := expect(text, json.Delim('{'), "token"); err != nil {
		return nil, err
	}
	if err := text.Decode(&token); err != nil {
		return nil, err
	}
	if !admits(token) {
		return nil, errStranger
	}
	message.N += int64(max(n-mostToken, 0))
	if err := expect(text, "specs", json.Delim('[')); err != nil {
		return nil, err
	}
	for text.More() {
		if len(specs) == mostSpecs {
			return nil, fmt.Errorf("there are more than %d tasks", mostSpecs)
		}
		spec, err := receiveSpec(text)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	return specs, expect(text, json.Delim(']'), json.Delim('}'))
}

// receiveSpec reads a task, and leaves its defaults to the queue's client.
func receiveSpec(text *json.Decoder) (spec task.Spec, err error) {
	var whole json.RawMessage
	var large struct {
		Args json.RawMessage `json:"args"`
	}
	if err = text.Decode(&whole); err == nil && len(whole) <= task.MaxArgs+mostBeside {
		err = json.Unmarshal(whole, &large)
	}
	switch {
	case err != nil:
		return spec, err
	case len(whole)-len(large.Args) > mostBeside:
		return spec, fmt.Errorf("a task has %d bytes of arguments, and more than %d beside them", len(large.Args), mostBeside)
	}
	if err = json.Unmarshal(whole, &spec); err != nil {
		return spec, err
	}
	checked := spec
	return spec, checked.Check()
}

// expect reads tokens of JSON.
func expect(text *json.Decoder, want ...json.Token) error {
	for _, w := range want {
		switch got, err := text.Token(); {
		case err != nil:
			return err
		case got != w:
			return errForm
		}
	}
	return nil
}
