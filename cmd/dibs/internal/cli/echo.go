package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/dibs-run/dibs/internal/aside"
	"github.com/dibs-run/dibs/internal/output"
	"github.com/dibs-run/dibs/run"
	"github.com/dibs-run/dibs/run/command"
)

// An echo is the command of `dibs run` whose output is kept: a pipe stands before each of this process's own
// streams, and what comes through it is copied there as it is and to the run's output. A terminal is not put
// behind a pipe: programs look for one. Nor is anything where leftovers are left alone, since they print on
// when this process has ended. A broken pipe of ours is one for the command too.
type echo struct {
	command.Target
	stderr io.Writer // for what went wrong

	copying sync.WaitGroup
	readers []*os.File

	mu    sync.Mutex // one Write at a time, of two streams
	kept  []byte
	wrong error // of a stream that could not be written, other than a broken pipe
}

// echoTime is how long the end of an attempt waits for what was printed last to be passed on. The rest is passed on
// after the release.
const echoTime = 250 * time.Millisecond

// Write keeps the end of what the run prints. It is the fire's Output.
func (e *echo) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept = output.AppendEnd(e.kept, b, output.MaxKept)
	return len(b), nil
}

// Attempt runs the command with pipes before the streams that are to be kept.
func (e *echo) Attempt(ctx context.Context, c run.Call) run.Result {
	t := e.Target
	if err := e.open(&t, c.Output); err != nil {
		fmt.Fprintf(e.stderr, "dibs: the command's output is not kept: %v\n", err)
	}
	res := t.Attempt(ctx, c)
	for _, r := range e.readers {
		_ = r.SetReadDeadline(time.Now()) // nobody prints any more: what is there already is all
	}
	e.wait(context.Background(), echoTime)
	return res
}

// open gives the command pipes in the place of the streams that are no terminals. Two that lead to the same
// place share one, so that what comes there keeps its order.
func (e *echo) open(t *command.Target, to io.Writer) error {
	if t.Leftovers == command.Leave {
		return nil
	}
	var err error
	if kept(os.Stdout) {
		if t.Stdout, err = e.pipe(os.Stdout, run.Stdout, to); err != nil {
			return err
		}
	}
	switch {
	case !kept(os.Stderr):
	case t.Stdout != nil && same(os.Stdout, os.Stderr):
		t.Stderr = t.Stdout
	default:
		t.Stderr, err = e.pipe(os.Stderr, run.Stderr, to)
	}
	return err
}

func kept(f *os.File) bool { return !term.IsTerminal(int(f.Fd())) }

// same says whether two files are one place: the same file, pipe or socket, written in the same way.
func same(a, b *os.File) bool {
	one, err := a.Stat()
	other, err2 := b.Stat()
	if err != nil || err2 != nil || !os.SameFile(one, other) {
		return false
	}
	how, err := unix.FcntlInt(a.Fd(), unix.F_GETFL, 0)
	how2, err2 := unix.FcntlInt(b.Fd(), unix.F_GETFL, 0)
	return err == nil && err2 == nil && how == how2
}

func (e *echo) pipe(to *os.File, s run.Stream, out io.Writer) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	e.readers = append(e.readers, r)
	e.copying.Go(func() { e.copy(r, to, s, out) })
	return w, nil
}

// copy passes on what comes from a pipe until its end, or until nothing more can come.
func (e *echo) copy(from, to *os.File, s run.Stream, out io.Writer) {
	defer from.Close() // a writer then has a broken pipe
	buf := make([]byte, 64<<10)
	for broken := false; !broken; {
		n, err := from.Read(buf)
		broken = e.pass(buf[:n], to, s, out)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			e.drain(from, buf, func(b []byte) bool { return e.pass(b, to, s, out) })
			return
		case err != nil:
			return
		}
	}
}

// usualPipe is the size of a pipe that nobody made larger.
const usualPipe = 1 << 16

// drain reads what a pipe holds, and waits for nothing: an escaped process may have it open, and may write for ever.
func (e *echo) drain(from *os.File, buf []byte, pass func([]byte) (broken bool)) {
	conn, err := from.SyscallConn()
	if err != nil {
		return
	}
	size, n := usualPipe, 0
	_ = conn.Control(func(fd uintptr) { size = pipeSize(fd) })
	for read := 0; read < size; read += n {
		if failed := conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buf) }); failed != nil {
			return
		}
		if n = max(n, 0); err != nil && err != unix.EINTR || err == nil && n == 0 || pass(buf[:n]) {
			return
		}
	}
}

// pass keeps b and writes it where it belongs. A full disk there does not stop the command: it is said at the end.
func (e *echo) pass(b []byte, to *os.File, s run.Stream, out io.Writer) (broken bool) {
	if len(b) == 0 {
		return false
	}
	_, _ = run.WriteStream(out, s, b)
	if _, err := to.Write(b); err != nil {
		if errors.Is(err, unix.EPIPE) {
			return true
		}
		e.mu.Lock()
		e.wrong = err
		e.mu.Unlock()
	}
	return false
}

// wait waits until all is passed on, but no longer than within once until has ended.
func (e *echo) wait(until context.Context, within time.Duration) {
	done := make(chan struct{})
	go func() { e.copying.Wait(); close(done) }()
	if until.Done() == nil {
		select {
		case <-done:
		case <-time.After(within):
		}
		return
	}
	select {
	case <-done:
		return
	case <-until.Done():
	}
	select {
	case <-done:
	case <-time.After(within):
	}
}

// end waits for a slow reader, since nothing is held any more, and returns what is to be kept.
func (e *echo) end(until context.Context) []byte {
	e.wait(until, aside.FlushTime)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wrong != nil {
		fmt.Fprintf(e.stderr, "dibs: some of the command's output could not be written: %v\n", e.wrong)
	}
	return output.LastOf(e.kept, output.MaxKept)
}
