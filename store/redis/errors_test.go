package redis

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dibs-run/dibs/lease"
	"github.com/dibs-run/dibs/store"
)

// A server that cannot keep a lease is unavailable, and the error names the cure.
// Holds: promise 7.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	s, c := prepared(t, server.URL+"?read_timeout=-1")
	raw := rawClient(t, c)
	call := func() error {
		_, err := s.Leases.Acquire(t.Context(), []lease.AcquireRequest{request("k")})
		return err
	}
	set := func(args ...any) {
		t.Helper()
		if err := raw.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what, cure string) {
		t.Helper()
		if err := call(); !errors.Is(err, lease.ErrUnavailable) || !strings.Contains(err.Error(), cure) {
			t.Errorf("%s: %v; want it unavailable, and %q in it", what, err, cure)
		}
	}
	set("CONFIG", "SET", "maxmemory", "1")
	refused("no memory", "maxmemory")
	set("CONFIG", "SET", "maxmemory", "0")
	set("ACL", "SETUSER", "default", "-info")
	refused("no permission for INFO", "INFO")
	set("ACL", "SETUSER", "default", "+info")
	if err := call(); err != nil {
		t.Fatal(err)
	}

	server.Stop() // it answers nobody: only the deadline ends the call
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Leases.Read(ctx, nil); !errors.Is(err, lease.ErrUnavailable) {
		t.Errorf("a stopped server: %v", err)
	}
	server.Cont()
	server.Kill()
	refused("a server that is gone", c.URL.Host)
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	c := config(t, server.URL)
	if err := rawClient(t, c).ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"", "s3cret"} {
		c := config(t, strings.Replace(server.URL, "//", "//:"+password+"@", 1))
		_, err := OpenConfig(t.Context(), c)
		if !errors.Is(err, lease.ErrUnavailable) || !strings.Contains(err.Error(), "password") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("password %q: %v", password, err)
		}
	}
	open(t, config(t, strings.Replace(server.URL, "//", "//:right@", 1)))
}

// A store never retries, even with a client that does: the second sending could be carried out late.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var sent atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go hangUpOn(c, "evalsha", &sent)
		}
	}()
	client := goredis.NewClient(&goredis.Options{Addr: l.Addr().String(), MaxRetries: 5})
	defer client.Close()
	_, err = New(t.Context(), client, config(t, "redis://"+l.Addr().String()))
	if !errors.Is(err, lease.ErrUnavailable) {
		t.Errorf("a server that hangs up: %v", err)
	}
	if n := sent.Load(); n != 1 {
		t.Errorf("the script was sent %d times", n)
	}
}

// hangUpOn refuses every command, and closes the connection at one of them.
func hangUpOn(c net.Conn, command string, count *atomic.Int32) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		switch line := strings.ToLower(lines.Text()); {
		case line == command:
			count.Add(1)
			return
		case line == "hello" || line == "client":
			_, _ = c.Write([]byte("-ERR unknown command\r\n"))
		}
	}
}

// A store declares what the server's settings weaken: durability, eviction, and what that means for a queue.
// Holds: promise 25, Q8.
func TestProperties(t *testing.T) {
	t.Parallel()
	durable, _ := prepared(t, ownServer(t).URL)
	if p := durable.Properties; !p.Durable || len(p.Weaker) != 2 {
		t.Errorf("a log that is synced always: %+v", p)
	}
	loose, _ := prepared(t, ownServer(t, "--appendonly", "no", "--maxmemory-policy", "allkeys-lru").URL)
	weaker := strings.Join(loose.Properties.Weaker, "\n")
	if loose.Properties.Durable || !strings.Contains(weaker, "noeviction") || !strings.Contains(weaker, "appendonly") {
		t.Errorf("a cache: %+v", loose.Properties)
	}
	if !strings.Contains(weaker, "The queue is not durable") || !strings.Contains(weaker, "a queue can lose tasks") {
		t.Errorf("a cache does not say what that means for a queue: %s", weaker)
	}
	usual, _ := prepared(t, ownServer(t, "--appendfsync", "everysec").URL)
	if p := usual.Properties; p.Durable || len(p.Flaws) != 0 || !strings.Contains(strings.Join(p.Weaker, "\n"), "enqueued tasks included") {
		t.Errorf("a log that is synced every second: %+v", p)
	}
	blind := ownServer(t)
	c := config(t, blind.URL)
	if err := rawClient(t, c).Do(t.Context(), "ACL", "SETUSER", "default", "-config").Err(); err != nil {
		t.Fatal(err)
	}
	weaker = strings.Join(open(t, c).Properties.Weaker, "\n")
	if strings.Count(weaker, "unknown") != 2 {
		t.Errorf("without CONFIG GET: %s", weaker)
	}
}

func TestNewerSchemaIsLeftAlone(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	_, c := prepared(t, server.URL)
	raw, key := rawClient(t, c), "dibs:{"+c.Namespace+"}:meta"
	raw.HSet(t.Context(), key, "schema", len(versions)+1, "oldest", len(versions)+1)
	before := raw.HGetAll(t.Context(), key).Val()
	c.Init = true
	if _, err := OpenConfig(t.Context(), c); err == nil || !errors.Is(err, store.ErrTooNew) {
		t.Errorf("open: %v", err)
	}
	if after := raw.HGetAll(t.Context(), key).Val(); len(after) != len(before) || after["run_id"] != before["run_id"] {
		t.Errorf("it was changed from %v to %v", before, after)
	}
}
