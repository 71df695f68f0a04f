//go:build linux

package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

type redis struct{}

func (redis) binaries() []string     { return []string{"redis-server"} }
func (redis) account() string        { return "" }
func (redis) install(*node) error    { return nil }
func (redis) url(addr string) string { return "redis://" + addr + "/0" }

func (redis) args(n *node) []string {
	return []string{"redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(n.port), "--dir", n.data,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--repl-diskless-sync-delay", "0"}
}

func (r redis) ping(ctx context.Context, n *node) error { return r.expect(ctx, n, "+PONG", "PING") }

func (r redis) follow(n *node, port int) error {
	if err := n.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := r.expect(ctx, n, "+OK", "REPLICAOF 127.0.0.1 "+strconv.Itoa(port)); err != nil {
		return err
	}
	for {
		err := r.expect(ctx, n, "master_link_status:up", "INFO replication")
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (r redis) follows(ctx context.Context, primary, _ *node) error {
	return r.expect(ctx, primary, ":1", "SET chaos-follows 1\r\nWAIT 1 5000") // it waits for what its own connection wrote
}

func (r redis) promote(n *node) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return r.expect(ctx, n, "+OK", "REPLICAOF NO ONE")
}

// expect sends one command and looks for a line in the answer.
func (redis) expect(ctx context.Context, n *node, want, command string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", n.address())
	if err != nil {
		return err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	if _, err = fmt.Fprintf(c, "%s\r\nQUIT\r\n", command); err != nil {
		return err
	}
	var said []string
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line == want {
			return nil
		} else if len(said) < 3 {
			said = append(said, line)
		}
	}
	return fmt.Errorf("redis answers %q to %s", said, command)
}
