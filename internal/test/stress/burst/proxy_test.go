package burst

import (
	"net"
	"net/url"
	"testing"
	"time"
)

// away is the address of a store at the other end of a wire, which takes a while each way.
func away(t *testing.T, address string, each time.Duration) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if each == 0 || u.Host == "" {
		return address
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	target := u.Host
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go carry(c, target, each)
		}
	}()
	u.Host = l.Addr().String()
	return u.String()
}

func carry(client net.Conn, target string, each time.Duration) {
	time.Sleep(each) // of the first packet; what comes back of it is not waited for
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	go pass(client, server, each)
	pass(server, client, each)
}

// piece is what was read, and when it arrives.
type piece struct {
	due  time.Time
	data []byte
}

func pass(from, to net.Conn, each time.Duration) {
	pieces := make(chan piece, 1<<10)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 32<<10)
			n, err := from.Read(b)
			if n > 0 {
				pieces <- piece{time.Now().Add(each), b[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	defer from.Close()
	defer to.Close()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	_ = from.Close()
	for range pieces { // its reader must not wait for us
	}
}
