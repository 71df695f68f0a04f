package command

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dibs-run/dibs/run"
)

// output is where a command's standard files lead.
type output struct {
	stdin, stdout, stderr *os.File
	given                 []*os.File // files that the command alone needs once it has begun
	readers               []*os.File
	copying               sync.WaitGroup
	input                 *os.File // the writing end of stdin

	mu sync.Mutex // one Write at a time, of two streams
	to io.Writer
}

func (t Target) output(w io.Writer) (*output, error) {
	if t.Stdio {
		return t.inherited(), nil
	}
	o := &output{to: w}
	if err := o.pipes(t); err != nil {
		o.closeAll()
		return nil, err
	}
	if o.input != nil {
		go func() {
			_, _ = o.input.Write(t.Input) // a command need not read it
			o.input.Close()
		}()
	}
	for i, r := range o.readers {
		o.copying.Go(func() { o.copy(r, run.Stream(i+1)) })
	}
	return o, nil
}

// inherited are this process's standard files, but for those that it gives instead.
func (t Target) inherited() *output {
	o := &output{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	if t.Stdout != nil {
		o.stdout, o.given = t.Stdout, append(o.given, t.Stdout)
	}
	if t.Stderr != nil {
		o.stderr, o.given = t.Stderr, append(o.given, t.Stderr)
	}
	return o
}

// pipes makes one pipe for what is printed, or one for each stream, where they are wanted apart.
func (o *output) pipes(t Target) (err error) {
	if o.stdout, err = o.pipe(); err != nil {
		return err
	}
	if o.stderr = o.stdout; run.Apart(o.to) {
		if o.stderr, err = o.pipe(); err != nil {
			return err
		}
	}
	if t.Input == nil {
		return nil
	}
	if o.stdin, o.input, err = os.Pipe(); err != nil {
		return fmt.Errorf("pipe for the command's input: %w", err)
	}
	o.given = append(o.given, o.stdin)
	return nil
}

func (o *output) pipe() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe for the command's output: %w", err)
	}
	o.readers, o.given = append(o.readers, r), append(o.given, w)
	return w, nil
}

func (o *output) closeAll() {
	for _, f := range append(o.readers, o.given...) {
		f.Close()
	}
}

// copy passes on what a stream has.
func (o *output) copy(from *os.File, s run.Stream) {
	if _, err := io.Copy(stream{o, s}, from); err != nil {
		_, _ = io.Copy(io.Discard, from) // a full disk here must not block the command
	}
}

// stream is one stream's way to the output of both.
type stream struct {
	*output
	which run.Stream
}

func (s stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return run.WriteStream(s.to, s.which, b)
}

// started closes what only the command needs now.
func (o *output) started() {
	for _, f := range o.given {
		f.Close()
	}
}

// drainTime is what is left for reading once the command is gone: with leftovers left alone,
// somebody may hold the pipe for ever.
const drainTime = time.Second

// writeTime is what a writer gets beyond that for what was read last.
const writeTime = 250 * time.Millisecond

// wait returns when all that was printed has been passed on, but does not wait for a writer that
// blocks, since the lease is held meanwhile: the copying then ends with the write that it is in.
func (o *output) wait() {
	if len(o.readers) == 0 {
		return
	}
	if o.input != nil {
		o.input.Close() // something that was left behind may have it open, and read nothing
	}
	for _, r := range o.readers {
		_ = r.SetReadDeadline(time.Now().Add(drainTime))
	}
	copied := make(chan struct{})
	go func() { o.copying.Wait(); close(copied) }()
	select {
	case <-copied:
	case <-time.After(drainTime + writeTime):
	}
	for _, r := range o.readers {
		r.Close()
	}
}
