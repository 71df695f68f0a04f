// Package hostile serves HTTP as no server should. Every caller of an HTTP server in this tree is tested with it.
package hostile

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a call may take after its bound, and a connection after its call: on a slow machine, too.
const patience = time.Minute

// Bound is the bound of a call.
const Bound = 300 * time.Millisecond

// pause is the pause between two pieces of what never ends.
const pause = 20 * time.Millisecond

const (
	ok      = "HTTP/1.1 200 OK\r\n"
	chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
)

// A manner is a way to answer a request.
type manner struct {
	serve func(*net.TCPConn)
	// head is whether the status and the headers are those of a success. The body is never whole.
	head bool
}

var manners = map[string]manner{
	"101 and silence":          {says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", ""), false},
	"101 and a stream":         {says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "x"), false},
	"101 with a length":        {says("HTTP/1.1 101 Switching Protocols\r\nContent-Length: 2\r\n\r\n{}", ""), false},
	"a flood of 1xx":           {flood("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), false},
	"1xx, slowly":              {says("", "HTTP/1.1 102 Processing\r\n\r\n"), false},
	"silence":                  {says("", ""), false},
	"headers without an end":   {says(ok, "X-Header: 1\r\n"), false},
	"a header, byte by byte":   {says(ok+"X-Header: ", "x"), false},
	"a flood of headers":       {flood(ok, "X-Header: 1\r\n"), false},
	"a body, byte by byte":     {says(ok+"\r\n", "x"), true},
	"chunks of one byte":       {says(chunked, "1\r\nx\r\n"), true},
	"a body that stalls":       {says(ok+"Content-Length: 10\r\n\r\n{}", ""), true},
	"a body without an end":    {flood(ok+"\r\n", " "), true},
	"a body of 10 GB":          {flood(ok+"Content-Length: 10737418240\r\n\r\n", " "), true},
	"a refusal without an end": {flood("HTTP/1.1 500 Internal Server Error\r\n\r\n", " "), false},
	"a flood of trailers":      {flood(chunked+"2\r\n{}\r\n0\r\n", "X-Trailer: 1\r\n"), true},
	"trailers, slowly":         {says(chunked+"2\r\n{}\r\n0\r\n", "X-Trailer: 1\r\n"), true},
	"two lengths":              {says(ok+"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", ""), false},
	"a chunk that is none":     {says(chunked+"zz\r\n", ""), true},
	"no HTTP":                  {says("SSH-2.0-OpenSSH_9.6\r\n", ""), false},
	"a redirect to itself":     {says("HTTP/1.1 307 Temporary Redirect\r\nLocation: /\r\nConnection: close\r\n\r\n", ""), false},
	"a reset at once":          {reset(""), false},
	"a reset in the headers":   {reset(ok + "X-Header: "), false},
	"a reset in the body":      {reset(ok + "Content-Length: 10\r\n\r\n{}"), true},
}

// says sends a beginning, and then a piece again and again, slowly, until the client closes the connection.
func says(beginning, piece string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		gone := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, c)
			close(gone)
		}()
		_, err := io.WriteString(c, beginning)
		for err == nil {
			select {
			case <-gone:
				return
			case <-time.After(pause):
				_, err = io.WriteString(c, piece)
			}
		}
		<-gone
	}
}

// flood sends a beginning, and then megabytes of the piece, until the client closes the connection.
func flood(beginning, piece string) func(*net.TCPConn) {
	return says(beginning, strings.Repeat(piece, 1<<20/len(piece)))
}

func reset(beginning string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		_, _ = io.WriteString(c, beginning)
		_ = c.SetLinger(0)
	}
}

// Each calls a server of each manner. The call must end within a bound of its own, a few times Bound, or with ctx,
// which ends after one; return an error, unless it takes the headers for the answer (heads); and leave no connection.
func Each(t *testing.T, heads bool, call func(t *testing.T, ctx context.Context, address string) error) {
	t.Helper()
	for name, manner := range manners {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, left := listen(t, manner.serve)
			ctx, cancel := context.WithTimeout(t.Context(), Bound)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- call(t, ctx, address) }()
			select {
			case err := <-ended:
				if err == nil && !(heads && manner.head) {
					t.Error("the call took it for a success")
				}
			case <-time.After(patience):
				t.Fatal("the call does not end")
			}
			if err := left(); err != nil {
				t.Error(err)
			}
		})
	}
}

// listen serves in one manner. left waits until no client has a connection any more.
func listen(t *testing.T, manner func(*net.TCPConn)) (address string, left func() error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var serving sync.WaitGroup
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				t.Cleanup(func() { c.Close() })     // what a failure leaves
				_, _ = c.Read(make([]byte, 64<<10)) // the request; the rest is read by the manner
				manner(c.(*net.TCPConn))
			})
		}
	}()
	return "http://" + l.Addr().String(), func() error {
		l.Close()
		<-accepted
		all := make(chan struct{})
		go func() { serving.Wait(); close(all) }()
		select {
		case <-all:
			return nil
		case <-time.After(patience):
			return fmt.Errorf("the call has ended, and a connection of it is open after %s", patience)
		}
	}
}
