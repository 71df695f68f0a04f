//go:build linux

package chaos

import (
	"io"
	"net"
	"sync"
	"time"
)

// A proxy stands between a host and the store (or a replica and its primary): it delays, holds back, refuses, and
// moves the address to another server.
type proxy struct {
	listener net.Listener

	mu      sync.Mutex
	changed *sync.Cond
	target  string
	delay   time.Duration // each way
	stalled bool          // connections stay, nothing passes
	refused bool          // there are none
	conns   map[net.Conn]bool
}

func newProxy(address, target string) (*proxy, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	go p.serve()
	return p, nil
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.carry(c)
	}
}

func (p *proxy) carry(client net.Conn) {
	p.mu.Lock()
	target, refused := p.target, p.refused
	p.mu.Unlock()
	if refused {
		reset(client)
		return
	}
	server, err := net.DialTimeout("tcp", target, 5*time.Second)
	if err != nil {
		reset(client)
		return
	}
	if !p.register(target, client, server) {
		reset(client)
		reset(server)
		return
	}
	go p.pipe(client, server)
	p.pipe(server, client)
}

// register says no to what was dialled before the address moved.
func (p *proxy) register(target string, both ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused || p.target != target {
		return false
	}
	for _, c := range both {
		p.conns[c] = true
	}
	return true
}

type chunk struct {
	due  time.Time
	data []byte
}

// pipe carries one way: a reader stamps what comes with the time at which it is due, a writer waits for that.
func (p *proxy) pipe(from, to net.Conn) {
	chunks := make(chan chunk, 256)
	go func() {
		defer close(chunks)
		for {
			b := make([]byte, 16<<10)
			n, err := from.Read(b)
			if n > 0 {
				p.mu.Lock()
				due := time.Now().Add(p.delay)
				p.mu.Unlock()
				chunks <- chunk{due, b[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range chunks {
		time.Sleep(time.Until(c.due))
		p.mu.Lock()
		for p.stalled {
			p.changed.Wait()
		}
		p.mu.Unlock()
		if _, err := to.Write(c.data); err != nil {
			break
		}
	}
	p.forget(from, to)
	for range chunks { // the reader must not wait for us
	}
}

func (p *proxy) forget(both ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range both {
		delete(p.conns, c)
		_ = c.Close()
	}
}

// set changes the proxy under its lock, and wakes what waits in it.
func (p *proxy) set(change func(p *proxy)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
	p.changed.Broadcast()
}

// move sends everybody to another server: present connections are reset.
func (p *proxy) move(target string) { p.set(func(p *proxy) { p.target = target; p.resetAll() }) }

func (p *proxy) refuse(yes bool)         { p.set(func(p *proxy) { p.refused = yes; p.resetAll() }) }
func (p *proxy) stall(yes bool)          { p.set(func(p *proxy) { p.stalled = yes }) }
func (p *proxy) delayBy(d time.Duration) { p.set(func(p *proxy) { p.delay = d }) }
func (p *proxy) close()                  { _ = p.listener.Close(); p.refuse(true) }

func (p *proxy) resetAll() {
	for c := range p.conns {
		reset(c)
	}
	clear(p.conns)
}

// reset closes a connection so that the other end hears of it at once, and what was under way is dropped.
func reset(c io.Closer) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
